"""Types, which goes for which, and what turns a value of one into one of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thalweg.domain.table_sql import SqlFault
from thalweg.store.sqlite.sql.signatures import Signature

KEYED: Final = frozenset(("numeric", "interval", "jsonb", "_numeric", "_float8", "_interval"))
"""Types of which equal values may be kept differently: they are compared by a key."""
CATEGORY: Final = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float8"), "N"),
    **dict.fromkeys(("date", "time", "timestamp", "timestamptz"), "D"),
    "text": "S",
    "bool": "B",
    "interval": "T",
    "json": "U",
    "jsonb": "U",
    "unknown": "X",
}
PREFERRED: Final = frozenset(("float8", "text", "timestamptz", "bool", "interval"))
IMPLICIT: Final[dict[str, tuple[str, ...]]] = {
    "int2": ("int4", "int8", "numeric", "float8"),
    "int4": ("int8", "numeric", "float8"),
    "int8": ("numeric", "float8"),
    "numeric": ("float8",),
    "date": ("timestamp", "timestamptz"),
    "timestamp": ("timestamptz",),
    "time": ("interval",),
}
NAMES: Final = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "char"), "text"),
    **dict.fromkeys(("int2", "smallint"), "int2"),
    **dict.fromkeys(("int4", "int", "integer"), "int4"),
    **dict.fromkeys(("int8", "bigint"), "int8"),
    **dict.fromkeys(("float8", "double precision"), "float8"),
    **dict.fromkeys(("numeric", "decimal"), "numeric"),
    **dict.fromkeys(("bool", "boolean"), "bool"),
    **{name: name for name in ("date", "time", "timestamp", "timestamptz", "interval", "json", "jsonb")},
}
SHOWN: Final = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float8": "double precision",
    "bool": "boolean",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
}


def shown(kind: str) -> str:
    """A type as PostgreSQL's messages name it."""
    return f"{shown(kind[1:])}[]" if kind.startswith("_") else SHOWN.get(kind, kind)


def category(kind: str) -> str:
    return "A" if kind.startswith("_") else CATEGORY[kind]


def goes_for(given: str, wanted: str) -> bool:
    """Whether a value of a type is taken for one of another without being told to."""
    if given in ("unknown", wanted) or wanted == "any":
        return True
    if wanted == "anyarray":
        return given.startswith("_")
    if wanted == "anyelement":
        return not given.startswith("_")
    return wanted in IMPLICIT.get(given, ())


def choose(
    name: str, signatures: Sequence[Signature], given: Sequence[str], *, operator: bool = False
) -> tuple[Signature, tuple[str, ...], str]:
    """The signature that PostgreSQL takes for arguments of these types (chapter 10 of its manual), the types that
    they are to have, and that of the result.

    raises  SqlFault: there is none, or none that fits better than others
    """
    fitting = [s for s in signatures if len(s.arguments) == len(given)]
    if operator and len(given) == 2 and "unknown" in given and given[0] != given[1]:
        # One side of unknown type is taken for one of the other's.
        known = given[0] if given[1] == "unknown" else given[1]
        for signature in fitting:
            if signature.arguments == (known, known):
                return _settled(signature, given)
    for signature in fitting:
        if signature.arguments == tuple(given):
            return _settled(signature, given)
    fitting = [s for s in fitting if _consistent(s, given)]
    if len(fitting) > 1:
        fitting = _best(fitting, [sum(g == a for g, a in zip(given, s.arguments, strict=True)) for s in fitting])
    if len(fitting) > 1:
        fitting = _best(
            fitting,
            [
                sum(g != "unknown" and (g == a or a in PREFERRED) for g, a in zip(given, s.arguments, strict=True))
                for s in fitting
            ],
        )
    if len(fitting) > 1:
        fitting = _by_category(fitting, given)
    if len(fitting) > 1:
        kinds = {kind for kind in given if kind != "unknown"}
        if len(kinds) == 1:
            kind = kinds.pop()
            same = [
                s
                for s in fitting
                if all(g != "unknown" or goes_for(kind, a) for g, a in zip(given, s.arguments, strict=True))
            ]
            fitting = same or fitting
    if len(fitting) == 1:
        return _settled(fitting[0], given)
    types = ", ".join(map(shown, given))
    what = f"operator {'is not unique' if fitting else 'does not exist'}: " if operator else "function "
    if operator:
        sides = f"{shown(given[0])} {name} {shown(given[1])}" if len(given) == 2 else f"{name} {shown(given[0])}"
        raise SqlFault(what + sides)
    raise SqlFault(f"function {name}({types}) {'is not unique' if fitting else 'does not exist'}")


def _consistent(signature: Signature, given: Sequence[str]) -> bool:
    if not all(map(goes_for, given, signature.arguments)):
        return False
    element = {g[1:] for g, a in zip(given, signature.arguments, strict=True) if a == "anyarray" and g.startswith("_")}
    arrays = "anyarray" in signature.arguments
    if not arrays:
        return True
    if len(element) != 1:
        return False
    kind = element.pop()
    return all(a != "anyelement" or goes_for(g, kind) for g, a in zip(given, signature.arguments, strict=True))


def _best(fitting: list[Signature], scores: list[int]) -> list[Signature]:
    most = max(scores)
    return [s for s, score in zip(fitting, scores, strict=True) if score == most]


def _by_category(fitting: list[Signature], given: Sequence[str]) -> list[Signature]:
    for place, kind in enumerate(given):
        if kind != "unknown":
            continue
        kinds = {_category(s.arguments[place]) for s in fitting}
        chosen = "S" if "S" in kinds else kinds.pop() if len(kinds) == 1 else ""
        if not chosen:
            return fitting
        fitting = [s for s in fitting if _category(s.arguments[place]) == chosen]
        preferred = [s for s in fitting if s.arguments[place] in PREFERRED]
        fitting = preferred or fitting
    return fitting


def _category(kind: str) -> str:
    return {"any": "P", "anyarray": "A", "anyelement": "P"}.get(kind) or category(kind)


def _settled(signature: Signature, given: Sequence[str]) -> tuple[Signature, tuple[str, ...], str]:
    element = ""
    for kind, wanted in zip(given, signature.arguments, strict=True):
        if wanted == "anyarray" and kind.startswith("_"):
            element = kind[1:]
        elif wanted == "anyelement" and not element:
            element = "text" if kind == "unknown" else kind
    names = {"anyarray": f"_{element}", "anyelement": element}
    types = tuple(
        names.get(wanted, kind if wanted == "any" else wanted)
        for kind, wanted in zip(given, signature.arguments, strict=True)
    )
    return signature, types, names.get(signature.result, signature.result)


def common(kinds: Sequence[str], what: str) -> str:
    """The type that values of these types are brought to in CASE, UNION and the like."""
    found = "unknown"
    for kind in kinds:
        if kind == "unknown" or kind == found:
            continue
        if found == "unknown":
            found = kind
        elif category(kind) != category(found):
            raise SqlFault(f"{what} types {shown(found)} and {shown(kind)} cannot be matched")
        elif found not in PREFERRED and goes_for(found, kind) and not goes_for(kind, found):
            found = kind
        elif not goes_for(kind, found):
            raise SqlFault(f"{what} could not convert type {shown(kind)} to {shown(found)}")
    return "text" if found == "unknown" else found


_INT: Final = ("int2", "int4", "int8")
CASTS: Final[dict[tuple[str, str], str]] = {}
"""(from, to) to a template; those of texts and to texts are below."""
for _a in _INT:
    for _b in _INT:
        if _INT.index(_b) >= _INT.index(_a):
            CASTS[_a, _b] = "{0}"
        else:
            CASTS[_a, _b] = f"pg_{_b}({{0}})"
    CASTS[_a, "float8"] = "CAST({0} AS REAL)"
    CASTS[_a, "numeric"] = "pg_numeric_of_int({0})"
    CASTS["float8", _a] = f"pg_float_{_a}({{0}})"
    CASTS["numeric", _a] = f"pg_numeric_{_a}({{0}})"
CASTS.update(
    {
        ("bool", "int4"): "{0}",
        ("int4", "bool"): "({0} <> 0)",
        ("float8", "numeric"): "pg_float_numeric({0})",
        ("numeric", "float8"): "pg_numeric_float({0})",
        ("date", "timestamp"): "pg_day_instant({0})",
        ("date", "timestamptz"): "pg_day_instant({0})",
        ("timestamp", "timestamptz"): "{0}",
        ("timestamptz", "timestamp"): "{0}",
        ("timestamp", "date"): "pg_day_of({0})",
        ("timestamptz", "date"): "pg_day_of({0})",
        ("timestamp", "time"): "pg_clock_of({0})",
        ("timestamptz", "time"): "pg_clock_of({0})",
        ("time", "interval"): "pg_clock_interval({0})",
        ("interval", "time"): "pg_interval_clock({0})",
        ("json", "jsonb"): "pg_jsonb({0})",
        ("jsonb", "json"): "pg_jsonb_text({0})",
        ("text", "bool"): "pg_text_bool({0})",
        ("text", "float8"): "pg_text_float({0})",
        ("text", "numeric"): "pg_text_numeric({0})",
        ("text", "date"): "pg_text_day({0})",
        ("text", "time"): "pg_text_clock({0})",
        ("text", "timestamp"): "pg_text_instant({0})",
        ("text", "timestamptz"): "pg_text_zoned({0})",
        ("text", "interval"): "pg_text_interval({0})",
        ("text", "json"): "pg_json_text({0})",
        ("text", "jsonb"): "pg_jsonb({0})",
        ("int2", "text"): "CAST({0} AS TEXT)",
        ("int4", "text"): "CAST({0} AS TEXT)",
        ("int8", "text"): "CAST({0} AS TEXT)",
        ("float8", "text"): "pg_float_text({0})",
        ("numeric", "text"): "pg_numeric_text({0})",
        ("bool", "text"): "(CASE {0} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)",
        ("date", "text"): "{0}",
        ("time", "text"): "pg_clock_text({0})",
        ("timestamp", "text"): "pg_instant_text({0})",
        ("timestamptz", "text"): "pg_instant_zoned_text({0})",
        ("interval", "text"): "pg_interval_text({0})",
        ("json", "text"): "{0}",
        ("jsonb", "text"): "pg_jsonb_text({0})",
    }
)
for _a in _INT:
    CASTS["text", _a] = f"pg_text_{_a}({{0}})"


def cast_template(given: str, wanted: str) -> str | None:
    """None: there is no such cast."""
    if given == wanted:
        return "{0}"
    if given.startswith("_") and wanted == "text":
        return f"pg_array_text('{given[1:]}', {{0}})"
    if given == "text" and wanted.startswith("_"):
        return f"pg_text_array('{wanted[1:]}', {{0}})"
    if given.startswith("_") and wanted.startswith("_"):
        if wanted[1:] == "text" or goes_for(given[1:], wanted[1:]):
            return f"pg_array_cast('{given[1:]}', '{wanted[1:]}', {{0}})"
        return None
    return CASTS.get((given, wanted))
