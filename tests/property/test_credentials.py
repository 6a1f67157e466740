"""How callers say who they are, whatever they send."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import json
import time
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import assume, given
from hypothesis import strategies as st
from starlette.requests import Request
from tests.fuzz import fragments

from thalweg.auth import credentials, identity, sessions, throttle, tokens
from thalweg.auth.credentials import Basic, Bearer, parse_authorization, parse_bare
from thalweg.auth.identity import MAX_TOKEN, Rules, claim, read_keys, texts, verify
from thalweg.domain.errors import (
    InvalidParameter,
    InvalidRequest,
    PermissionDenied,
    StoreUnavailable,
    TooLarge,
    Unauthenticated,
)
from thalweg.services.identity import KeySource
from thalweg.settings import Settings
from thalweg.web.forms import MAX_FIELDS, MAX_FORM_BYTES, expect_own, read_form

HEADERS = st.one_of(
    st.text(st.characters(max_codepoint=255), max_size=60),
    st.sampled_from([value for name, value in fragments.HEADERS if name == "Authorization"]),
    st.tuples(st.sampled_from(("Basic ", "Bearer ", "basic\t", "BEARER  ")), st.text(st.characters(max_codepoint=255), max_size=40)).map("".join),
)  # fmt: skip
NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters=":"), min_size=1, max_size=20)
PASSWORDS = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=30)


@given(HEADERS)
def test_authorization_headers_are_read_or_refused(header: str) -> None:
    """An error never says what was sent: it is a password, or most of one."""
    try:
        found = parse_authorization(header)
    except Unauthenticated as error:
        value = header.partition(" ")[2].strip()
        assert len(value) < 8 or value not in error.message
    else:
        assert (found is None) == (not header)
    bare = parse_bare(header)
    assert bare is None or bare.token == header


@given(NAMES, PASSWORDS)
def test_names_and_passwords_come_out_as_they_were(name: str, password: str) -> None:
    sent = base64.b64encode(f"{name}:{password}".encode()).decode()
    found = parse_authorization(f"Basic {sent}")
    assert found == Basic(name, password)
    assert password not in repr(found) or len(password) < 3 or password in name


def test_headers_of_any_length_take_no_time() -> None:
    started = time.process_time()
    for header in ("Basic " + "A" * 10**6, "Bearer " + "=" * 10**6, " " * 10**6, "Bearer " + "a." * 10**6):
        with pytest.raises(Unauthenticated):
            parse_authorization(header)
    assert time.process_time() - started < 0.5
    assert credentials.MAX_HEADER_LENGTH < 10_000


@given(st.text(max_size=40))
def test_tokens_are_told_from_one_another(text: str) -> None:
    made = tokens.new_token()
    assert made.startswith(tokens.PREFIX)
    assert parse_authorization(f"Bearer {made}") == Bearer(made) == parse_bare(made)
    # Not to be taken for a provider's.
    assert not identity.looks_signed(made)
    assert len(tokens.token_digest(text)) == 64
    assert (tokens.token_digest(text) == tokens.token_digest(made)) == (text == made)


# ---------------------------------------------------------------- cookies and forms

COOKIES = st.lists(
    st.tuples(st.text(st.characters(codec="ascii", exclude_categories=("Cc",), exclude_characters="=; "), min_size=1, max_size=12),
              st.text(st.characters(codec="ascii", exclude_categories=("Cc",), exclude_characters="; "), max_size=20)), max_size=6,
)  # fmt: skip


@given(COOKIES, st.integers(0, 6))
def test_one_cookie_is_found_among_others(cookies: list[tuple[str, str]], place: int) -> None:
    name = sessions.cookie_name(True)
    assume(all(other != name for other, _ in cookies))
    header = "; ".join(f"{k}={v}" for k, v in cookies)
    assert sessions.cookie_value(header, name) == ""
    text = sessions.new_session()
    mixed = [*cookies[:place], (name, text), *cookies[place:]]
    assert sessions.cookie_value("; ".join(f"{k}={v}" for k, v in mixed), name) == text


@given(st.text(st.characters(max_codepoint=255), max_size=300))
def test_any_cookie_header_is_looked_through(header: str) -> None:
    found = sessions.cookie_value(header, "thalweg-session")
    assert len(found) <= 128
    assert found in header


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_form_counts_for_its_own_session_alone(given_token: str, session: str) -> None:
    own = sessions.csrf_token(session)
    assert sessions.is_csrf_token(own, session)
    assert sessions.is_csrf_token(given_token, session) == (given_token == own)
    if session:
        expect_own({"csrf": own}, session)
    with pytest.raises(PermissionDenied):
        expect_own({"csrf": own}, session + "x")


def form(body: bytes, content_type: bytes = b"application/x-www-form-urlencoded", **headers: bytes) -> dict[str, str]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    named = [(b"content-type", content_type), *((k.replace("_", "-").encode(), v) for k, v in headers.items())]
    request = Request({"type": "http", "method": "POST", "headers": named}, receive)
    return asyncio.run(read_form(request))


@given(
    st.binary(max_size=300), st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=MAX_FIELDS)
)
def test_forms_are_read_or_refused(body: bytes, pairs: dict[str, str]) -> None:
    try:
        found = form(body)
        assert len(found) <= MAX_FIELDS
    except InvalidRequest:
        pass
    assume(not any("\ud800" <= c <= "\udfff" for text in (*pairs, *pairs.values()) for c in text))
    assert form(urlencode(pairs).encode()) == pairs


def test_forms_of_other_sites_types_and_sizes_are_refused() -> None:
    for kind in (b"text/plain", b"multipart/form-data; boundary=x", b"application/json", b""):
        with pytest.raises(InvalidRequest):
            form(b"a=b", kind)
    with pytest.raises(PermissionDenied):
        form(b"a=b", sec_fetch_site=b"cross-site")
    with pytest.raises(TooLarge):
        form(b"a=" + b"b" * (MAX_FORM_BYTES - 1))
    assert form(b"a=" + b"b" * (MAX_FORM_BYTES - 2))
    started = time.process_time()
    with pytest.raises(InvalidRequest):
        form(b"a;" * 15_000 + b"&" * 30)
    assert time.process_time() - started < 0.5


@given(st.one_of(st.ip_addresses().map(str), st.text(max_size=80)))
def test_addresses_fall_into_networks(address: str) -> None:
    found = throttle.network_of(address)
    assert len(found) <= 64
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        assert parsed in ipaddress.ip_network(found)
        assert found.endswith("/64")


# ---------------------------------------------------------------- tokens of a provider

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RULES = Rules("https://login.example.org", "thalweg", ("ES256",), 30.0)


def public(key: Any = KEY, **more: str) -> dict[str, Any]:
    return {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": "k", **more}


KEYS = read_keys(json.dumps({"keys": [public()]}).encode())


def signed(key: Any = KEY, algorithm: str = "ES256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    content = {"iss": RULES.issuer, "aud": RULES.audience, "sub": "ann", "exp": 4_000_000_000, **claims}
    return jwt.encode(content, key, algorithm, {"kid": "k", **(headers or {})})


GOOD = signed()
CLAIMS = jwt.decode(GOOD, options={"verify_signature": False})


@given(st.integers(0, len(GOOD) - 1), st.sampled_from("ABCxyz019-_.=+/ \n\u00e9"), st.booleans())
def test_a_token_that_was_changed_never_counts(at: int, letter: str, insert: bool) -> None:
    """Unless it says the same: the last letter of Base64 may have bits that mean nothing."""
    assert verify(GOOD, RULES, lambda _: KEYS) == CLAIMS
    changed = GOOD[:at] + letter + GOOD[at + (not insert) :]
    assume(changed != GOOD)
    try:
        found = verify(changed, RULES, lambda _: KEYS)
    except Unauthenticated as error:
        assert error.message == "The token is not valid here, or has expired."
    else:
        assert found == CLAIMS


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)), max_leaves=10,
)  # fmt: skip


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("iss", "aud", "exp", "nbf", "iat", "sub", "roles"), JSON)))
def test_claims_of_any_kind_are_taken_as_the_rules_say(claims: dict[str, Any]) -> None:
    content = {"iss": RULES.issuer, "aud": RULES.audience, "exp": 4_000_000_000, **claims}
    try:
        token = jwt.api_jws.encode(json.dumps(content).encode(), KEY, "ES256", {"kid": "k"})
        found = verify(token, RULES, lambda _: KEYS)
    except Unauthenticated:
        return
    assert found["iss"] == RULES.issuer
    assert RULES.audience in (found["aud"] if isinstance(found["aud"], list) else [found["aud"]])
    assert float(found["exp"]) > time.time() - 31
    assert all(isinstance(item, str) for item in texts(claim(found, "roles")))


@given(st.text(st.characters(codec="ascii"), max_size=200))
def test_any_text_is_no_token(text: str) -> None:
    with pytest.raises(Unauthenticated):
        verify(text, RULES, lambda _: KEYS)
    with pytest.raises(Unauthenticated):
        verify("ey" + text, RULES, lambda _: KEYS)


def test_signatures_of_other_keys_and_kinds_never_count() -> None:
    secret = json.dumps(public())
    bad = [signed(OTHER), jwt.encode(CLAIMS, "", "none"), signed(exp=1), signed(aud="other"), signed(iss="https://evil.example"), signed(headers={"crit": ["x"]}),
           signed(OTHER, headers={"jwk": public(OTHER)}), signed(OTHER, headers={"jku": "http://127.0.0.1:9/keys", "x5u": "http://127.0.0.1:9/x"}), "a" * 200_000, GOOD + "x" * MAX_TOKEN,
           signed(headers={"typ": "x"})]  # fmt: skip
    header, payload, _ = GOOD.split(".")
    for algorithm in ("HS256", "none", "None", "ES512"):
        head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "k"}).encode()).rstrip(b"=").decode()
        bad.append(f"{head}.{payload}.")
        # The public key taken for a shared secret (RFC 8725 section 2.1).
        mac = hmac.new(secret.encode(), f"{head}.{payload}".encode(), "sha256").digest()
        bad.append(f"{head}.{payload}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}")
    bad.append(f"{header}.{base64.urlsafe_b64encode(b'[' * 9000).decode()}.x")
    for token in bad:
        with pytest.raises(Unauthenticated):
            verify(token, RULES, lambda _: KEYS)


@given(st.one_of(st.binary(max_size=100), JSON.map(lambda value: json.dumps(value).encode()), st.lists(
    st.one_of(JSON, st.dictionaries(st.sampled_from(("kty", "crv", "x", "y", "n", "e", "alg", "use", "kid", "k", "d")), JSON, max_size=6)), max_size=4
).map(lambda keys: json.dumps({"keys": keys}).encode())))  # fmt: skip
def test_documents_of_a_provider_are_read_or_refused(document: bytes) -> None:
    try:
        found = read_keys(document)
    except InvalidParameter as error:
        assert error.parameter == "oidc_keys"
        return
    assert 0 < len(found) <= identity.MAX_KEYS
    assert all(key.type in ("RSA", "EC", "OKP") for key in found)


def test_addresses_of_keys_are_those_an_operator_has_named() -> None:
    for url in (
        "http://127.0.0.1:9/keys",
        "file:///etc/passwd",
        "http://[::1]:9/",
        "http://169.254.169.254/latest",
        "ftp://example.org/",
    ):
        settings = Settings(
            oidc_issuer="https://login.example.org", oidc_audience="x", oidc_keys=url, oidc_hosts=("login.example.org",)
        )
        with pytest.raises(StoreUnavailable):
            KeySource(settings)("k")
