"""The one XML parser: what it refuses, and that it reaches for nothing."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.errors import InvalidRequest, ThalwegError, TooLarge
from thalweg.encode.xml_input import MAX_NODES, parse_document, parse_fragment

LONG_PROLOG = "<!--" + "x" * 5000 + "-->"


def refusal(body: bytes, **limits: int) -> ThalwegError:
    with pytest.raises(ThalwegError) as raised:
        parse_document(body, **limits)
    assert raised.value.parameter == "request"
    return raised.value


def test_reads_elements_without_comments_and_instructions() -> None:
    root = parse_document(b"\xef\xbb\xbf<?xml version='1.0'?><!-- c --><a><!-- c --><?p i?><b>x<!-- c -->y</b></a>")
    assert [child.tag for child in root] == ["b"]
    assert root[0].text == "xy"


@pytest.mark.parametrize("body", [b"", b" \n", b"\xff\xfe", b"\xef\xbb\xbf "])
def test_empty_body_is_said_to_be_empty(body: bytes) -> None:
    assert isinstance(refusal(body), InvalidRequest)


@pytest.mark.parametrize(
    ("body", "place"),
    [(b"<a>\n<b></a>", "line 2"), (b"<a>", "line 1"), (b"<a>&nope;</a>", "line 1"), (b"no xml", "line 1")],
)
def test_malformed_xml_is_refused_with_line_and_column(body: bytes, place: str) -> None:
    error = refusal(body)
    assert isinstance(error, InvalidRequest)
    assert place in error.message
    assert "column" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
        LONG_PROLOG + "<!DOCTYPE a [<!ENTITY x 'y'>]><a b='&x;'/>",
        "<!DOCTYPE a [<!ENTITY % x SYSTEM 'file:///etc/passwd'>%x;]><a/>",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le-declared", "utf-8-sig"])
def test_document_type_is_refused_in_every_encoding(text: str, encoding: str) -> None:
    if encoding == "utf-16-le-declared":
        body = ("\ufeff<?xml version='1.0' encoding='UTF-16'?>" + text).encode("utf-16-le")
    else:
        body = text.encode(encoding)
    assert "DOCTYPE" in refusal(body).message


def test_entity_bomb_costs_nothing() -> None:
    levels = "".join(f"<!ENTITY e{i} '{f'&e{i - 1};' * 10}'>" for i in range(1, 12))
    for prolog in ("", LONG_PROLOG):
        bomb = f"{prolog}<!DOCTYPE a [<!ENTITY e0 'lol'>{levels}]><a b='&e11;'>&e11;</a>"
        assert isinstance(refusal(bomb.encode()), InvalidRequest)


def test_external_subset_is_never_opened(tmp_path: Path) -> None:
    # Opening the pipe would block for ever, since nobody writes.
    pipe = tmp_path / "subset"
    os.mkfifo(pipe)
    done = threading.Event()

    def attempt() -> None:
        for text in (
            f"{LONG_PROLOG}<!DOCTYPE a SYSTEM '{pipe.as_uri()}'><a/>",
            f"{LONG_PROLOG}<!DOCTYPE a [<!ENTITY % x SYSTEM '{pipe.as_uri()}'>%x;]><a/>",
            f"{LONG_PROLOG}<!DOCTYPE a [<!ENTITY x SYSTEM '{pipe.as_uri()}'>]><a>&x;</a>",
        ):
            assert "DOCTYPE" in refusal(text.encode()).message
        done.set()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    assert done.wait(10)


def test_no_connection_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        for text in (
            f"{LONG_PROLOG}<!DOCTYPE a SYSTEM '{url}'><a/>",
            f"<a xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:schemaLocation='u {url}'/>",
            f"<a xmlns:xi='http://www.w3.org/2001/XInclude'><xi:include href='{url}'/></a>",
            f"<?xml-stylesheet href='{url}'?><a/>",
        ):
            try:
                parse_document(text.encode())
            except ThalwegError:
                pass
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_depth_is_bounded() -> None:
    assert parse_document(b"<a>" * 100 + b"</a>" * 100).tag == "a"
    for depth in (101, 300, 100_000):
        error = refusal(b"<a>" * depth + b"</a>" * depth)
        assert isinstance(error, TooLarge)
    assert isinstance(refusal(b"<a><b><c/></b></a>", max_depth=2), TooLarge)
    assert parse_document(b"<a><b><c/></b></a>", max_depth=3) is not None


def test_number_of_nodes_is_bounded_before_parsing() -> None:
    assert isinstance(refusal(b"<a>" + b"=" * (MAX_NODES + 1) + b"</a>"), TooLarge)
    assert parse_document(b"<a>" + b"=" * MAX_NODES + b"</a>").tag == "a"
    assert isinstance(refusal(b"<a>" + b"<b/>" * 2001 + b"</a>", max_nodes=1000), TooLarge)
    attributes = b" ".join(b"a%d='1'" % i for i in range(2001))
    assert isinstance(refusal(b"<a " + attributes + b"/>", max_nodes=1000), TooLarge)


def hidden(text: str, encoding: str) -> bytes:
    """A document whose ``<`` and ``=`` are written without the bytes of these characters."""
    signs = {"UTF-7": {"<": "+ADw-", "=": "+AD0-"}, "JAVA": {"<": "\\u003c", "=": "\\u003d"}}[encoding]
    return f'<?xml version="1.0" encoding="{encoding}"?>'.encode() + text.translate(str.maketrans(signs)).encode()


@pytest.mark.parametrize("encoding", ["UTF-7", "JAVA"])
def test_an_encoding_that_hides_markup_from_the_count_is_refused(encoding: str) -> None:
    error = refusal(hidden("<a>" + "<b/>" * 50 + "</a>", encoding))
    assert isinstance(error, InvalidRequest)
    assert encoding in error.message


@pytest.mark.parametrize("start", ["<?xml version='1.0' ", "\ufeff<?xml\n version='1.0'\t", "<?xml "])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_an_encoding_is_seen_however_it_is_declared(start: str, quote: str) -> None:
    body = f"{start}encoding = {quote}JAVA{quote} ?><a/>".encode()
    assert isinstance(refusal(body), InvalidRequest)


def test_a_declaration_without_near_end_is_refused() -> None:
    body = b'<?xml version="1.0"' + b" " * 2000 + b'encoding="UTF-7"?><a/>'
    assert "declaration" in refusal(body).message


@pytest.mark.parametrize("encoding", ["UTF-8", "utf8", "ISO-8859-1", "iso-8859-15", "us-ascii", "windows-1252", "GBK"])
def test_usual_encodings_are_read(encoding: str) -> None:
    assert parse_document(f'<?xml version="1.0" encoding="{encoding}"?><a>x</a>'.encode()).text == "x"


def test_overlong_text_is_too_large() -> None:
    assert isinstance(refusal(b"<a>" + b"x" * 11_000_000 + b"</a>"), TooLarge)


def test_fragment_may_leave_prefixes_undeclared() -> None:
    element = parse_fragment("<?xml version='1.0'?><ogc:BBOX/>", {"ogc": "http://o"})
    assert element.tag == "{http://o}BBOX"
    own = parse_fragment("<ogc:BBOX xmlns:ogc='http://other'/>", {"ogc": "http://o"})
    assert own.tag == "{http://other}BBOX"


@pytest.mark.parametrize(
    "text", ["", "x", "<a/><b/>", "<a/>x", "x<a/>", "<!DOCTYPE a><a/>", "\ud800", "</fragment><fragment>", "<p:a/>"]
)
def test_bad_fragment_is_an_invalid_request(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_fragment(text, {"ogc": "http://o"})


@given(st.binary(max_size=200))
def test_any_bytes_give_a_tree_or_a_domain_error(body: bytes) -> None:
    message = ""
    try:
        parse_document(body)
    except ThalwegError as error:
        message = error.message
    assert len(message) < 600


@given(st.text("<>/ab&;!=\"'[]-? :x\0\u00e9", max_size=80))
def test_any_markup_gives_a_tree_or_a_domain_error(text: str) -> None:
    for body in (text.encode(), text.encode("utf-16")):
        try:
            parse_document(body)
        except ThalwegError:
            pass
    try:
        parse_fragment(text, {"x": "http://x"})
    except ThalwegError:
        pass
