"""Nothing new without hostile inputs of its own: a door, an operation, a parser, a bound that nobody tries fails here."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from tests.fuzz.fragments import ALL
from tests.fuzz.support import Row, declared, doors, rows_of

from thalweg import app
from thalweg.settings import Settings, reference

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src"
FILES = (*doors(), "common")
_READS = re.compile(r"(parse|read|decode|verify|load_settings|cookie_value|network_of|token_digest)(_|$)")
"""Functions whose names say that they take what comes from outside."""
_REFUSES = frozenset(("InvalidParameter", "InvalidRequest", "MissingParameter"))
# What reads what this server itself has written, or an operator's own machine.
_INSIDE = ("thalweg/store/", "thalweg/bench/", "thalweg/cli/", "thalweg/server/", "thalweg/app.py")
_OUTSIDE = ("thalweg/server/body.py",)


@lru_cache(maxsize=512)
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_name(path: Path, source: Path = SOURCE) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def readers(source: Path = SOURCE) -> dict[str, str]:
    """Modules that read what comes from outside, and why they are thought to."""
    found = {}
    for path in sorted((source / "thalweg").rglob("*.py")):
        relative = path.relative_to(source).as_posix()
        if relative.startswith(_INSIDE) and relative not in _OUTSIDE:
            continue
        module = tree(path)
        names = [item.name for item in module.body if isinstance(item, ast.FunctionDef)]
        reading = [name for name in names if _READS.match(name)]
        if reading:
            found[module_name(path, source)] = f"has the function {reading[0]}"
        elif re.match(r"thalweg/doors/\w+/", relative):
            refuses = [
                node.exc.func.id
                for node in ast.walk(module)
                if isinstance(node, ast.Raise)
                and isinstance(node.exc, ast.Call)
                and isinstance(node.exc.func, ast.Name)
            ]
            if _REFUSES.intersection(refuses):
                found[module_name(path, source)] = "refuses what a client has sent"
    return found


def is_property_test(where: str) -> bool:
    """Whether "file::test" below tests/ is a test of Hypothesis."""
    file, _, name = where.partition("::")
    path = REPOSITORY / "tests" / file
    if not path.is_file():
        return False
    for item in ast.walk(tree(path)):
        if isinstance(item, ast.FunctionDef) and item.name == name:
            return any(isinstance(mark, ast.Call) and ast.unparse(mark.func) == "given" for mark in item.decorator_list)
    return False


def test_every_door_has_a_file_and_every_operation_a_request() -> None:
    for door in app.all_doors(Settings()):
        declaration = declared(door.name)
        assert untried(door.operations, (*rows_of(door.name).rows, *declaration.seeds)) == set(), door.name
        assert len(declaration.words) >= 10, door.name
    assert set(doors()) == {door.name for door in app.all_doors(Settings())}


def untried(operations: Mapping[str, object], rows: Sequence[Row]) -> set[str]:
    """Operations without a request, and requests of operations that there are not."""
    return {row.operation for row in rows} ^ set(operations)


def test_a_door_or_operation_without_requests_is_seen() -> None:
    """The test above can fail."""
    with pytest.raises(pytest.fail.Exception, match=r"tests/fuzz/new\.py"):
        declared("new")
    rows = (*rows_of("ldes").rows, *declared("ldes").seeds)
    there = {row.operation: None for row in rows}
    assert untried({**there, "Anything": None}, rows) == {"Anything"}
    assert untried(there, [row for row in rows if row.operation != "GetNode"]) == {"GetNode"}


def test_every_parser_has_a_property_test() -> None:
    parsers = {name: where for file in FILES for name, where in declared(file).parsers.items()}
    exempt = {name: reason for file in FILES for name, reason in declared(file).exempt.items()}
    found = readers()
    missing = {name: why for name, why in found.items() if name not in parsers and name not in exempt}
    assert not missing, f"modules that read and are declared by no file of tests/fuzz: {missing}"
    for name, where in parsers.items():
        importlib.import_module(name)
        assert is_property_test(where), f"{name}: {where} is no property test"
    for name, reason in exempt.items():
        assert reason
        assert name in found, f"{name} need not be declared"


def test_a_parser_that_nobody_declares_is_seen(tmp_path: Path) -> None:
    """The test above can fail."""
    folder = tmp_path / "thalweg" / "doors" / "new"
    folder.mkdir(parents=True)
    (folder / "query.py").write_text("def parse_query(text): ...\n")
    (folder / "handle.py").write_text("def handle(text):\n    raise InvalidParameter('x', text)\n")
    (folder / "plain.py").write_text("def write(text):\n    return text\n")
    assert set(readers(tmp_path)) == {"thalweg.doors.new.query", "thalweg.doors.new.handle"}
    assert "thalweg.doors.sos.swe_input" in readers()
    assert "thalweg.encode.xml_input" in readers()
    assert not is_property_test("unit/test_time.py::test_no_such_test")
    assert not is_property_test("fuzz/test_declared.py::test_every_parser_has_a_property_test")


# ---------------------------------------------------------------- bounds


def bounds() -> dict[str, object]:
    """Constants of modules that bound what comes in or is kept: ``module.NAME`` and value, where it is a number."""
    found: dict[str, object] = {}
    for path in sorted((SOURCE / "thalweg").rglob("*.py")):
        relative = path.relative_to(SOURCE).as_posix()
        if relative.startswith(("thalweg/store/", "thalweg/bench/", "thalweg/cli/")):
            continue
        for item in tree(path).body:
            if (
                isinstance(item, ast.AnnAssign)
                and isinstance(item.target, ast.Name)
                and item.target.id.startswith("MAX_")
            ):
                name = module_name(path)
                found[f"{name.removeprefix('thalweg.')}.{item.target.id}"] = getattr(
                    importlib.import_module(name), item.target.id
                )
    assert set(NOT_OF_CLIENTS) <= set(found)
    return {name: value for name, value in found.items() if name not in NOT_OF_CLIENTS}


NOT_OF_CLIENTS = {
    "domain.features.MAX_BATCH_FEATURES": "how a read is cut into batches",
    "domain.store.MAX_BLOCK_ROWS": "how a read is cut into blocks",
    "doors.ckan.organizations.MAX_SHOWN_PACKAGES": "how many packages an organization lists of itself",
    "doors.ckan.search.MAX_INLINE_ROWS": "what is read in a thread",
    "doors.ckan.search.MAX_INLINE_SCAN": "what is read in a thread",
    "doors.ckan.search.MAX_KEPT": "requests remembered, for speed",
    "doors.ckan.search.MAX_KEY": "requests remembered, for speed",
    "doors.sos.capabilities.MAX_CACHED_WORKSPACES": "documents kept, for speed",
    "doors.sos.capabilities.MAX_CACHED_DOCUMENTS": "documents kept, for speed",
    "doors.sos.describe.MAX_FEATURES": "how many places a description lists",
    "doors.sos.describe.MAX_KEPT_DOCUMENTS": "documents kept, for speed",
    "doors.sos.observations.MAX_REMEMBERED": "plans kept, for speed",
    "doors.sos.observations.MAX_WORKSPACES": "plans kept, for speed",
    "encode.lookup.MAX_DECIMALS": "which numbers are written by a table",
    "encode.table.MAX_PADDED_BYTES": "how rows are written in steps",
    "encode.sensorml.original.MAX_STORED_DEPTH": "of documents that were accepted",
    "services.made_packages.MAX_COUNTED_VALUES": "what is asked of the store so that counts can be added to",
    "services.table_procedures.MAX_NEW_RECORDS": "how new stations are found, one way or the other",
    "doors.ldes.answer.MAX_PERMITTED": "callers remembered, for speed",
    "loading.findings.MAX_EXAMPLES": "how much a report of a load shows",
    "loading.findings.MAX_QUOTED": "how much a report of a load shows",
    "server.turn.MAX_BYTES": "which answers are sent together",
    "server.turn.MAX_S": "which answers are sent together",
}
"""Constants that bound the server's own work: nobody outside can pass them."""

ROW = re.compile(r"^\| [^|]+ \| `([\w.]+)` \| ([^|]+) \| ([^|]+) \| `(\w+)` \|$", re.MULTILINE)


def test_page_of_guards_has_every_bound_its_value_and_a_test() -> None:
    page = (REPOSITORY / "docs/how-to/guards.md").read_text()
    rows = {name: (value, beyond, test) for name, value, beyond, test in ROW.findall(page)}
    every = "\n".join(texts_of_tests())
    known = bounds()
    defaults = {item.name: item.default for item in reference()}
    for name, (value, beyond, test) in rows.items():
        if name in defaults:
            assert value.strip() == defaults[name], name
        else:
            assert name in known, f"{name} is no bound"
            assert value.strip() == f"{known[name]:,}", name
        assert beyond.strip(), name
        assert f"def {test}(" in every, f"{name}: there is no {test}"
        if name not in defaults:
            assert names_it(name, known[name], test), f"{name}: {test} is in no file that names {name} or its value"
    assert set(known) - set(rows) == set(), "bounds that docs/how-to/guards.md does not have"


def names_it(name: str, value: object, test: str) -> bool:
    """Whether a file with that test has the constant, or its value, in it."""
    constant = name.rpartition(".")[2]
    written = {str(value), f"{value:,}", f"{value:_}"}
    if isinstance(value, int):
        written |= {str(value + 1), f"{value + 1:_}", f"{value + 1:,}"}
    return any(
        constant in text or any(re.search(rf"\b{item}\b", text) for item in written)
        for text in texts_of_tests()
        if f"def {test}(" in text
    )


@lru_cache(maxsize=1)
def texts_of_tests() -> tuple[str, ...]:
    return tuple(path.read_text() for path in (REPOSITORY / "tests").rglob("*.py"))


def test_hostile_texts_are_many_and_different() -> None:
    assert len(ALL) > 150
    assert len(ALL) - len(set(ALL)) < 5
