"""package_revise: parts of a package changed by themselves, if it is as the client believes it to be.

Parts are named by keys joined by ``__`` (``resources__0__name``). An item of a list is named by its number, from the
end if negative, or by the first five or more letters of its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from thalweg.auth.policy import Action
from thalweg.doors.ckan.catalogue import save_described, shown
from thalweg.doors.ckan.errors import ValidationError, fault
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.transport import Call, answer, with_floats
from thalweg.doors.http import Deferred
from thalweg.services.services import Services

MAX_DEPTH: Final = 20
"""Deepest part that is named or merged."""
MAX_PARTS: Final = 200
"""Most parts, of each kind, that one request names."""
_SHORTEST_ID: Final = 5


class _Unmatched(Exception):
    """There is no such part. Its argument: the path as far as it was followed, and the key that is not there."""


def package_revise(call: Call, services: Services) -> Deferred:
    """Change parts of a package: ``match`` says what it has to be, ``filter`` what to remove, ``update`` what to set,
    ``include`` what to answer. ``match__...`` and ``update__...`` name a part each."""
    read = Parameters(call.parameters)
    match, update = _document(read, "match"), _document(read, "update")
    matches, updates = _parts(read, "match__"), _parts(read, "update__")
    removed, included = _patterns(read, "filter"), _patterns(read, "include")
    key = next((found for part in (matches, match) for name in ("id", "name") if (found := part.get(name))), None)
    if not isinstance(key, str):
        raise ValidationError({"match__id": "Missing value"})
    package = services.tables.package(key, call.request.principal, Action.REGISTER)
    # A copy, as what is stored is shared by all who read it.
    before = _copy(shown(package, call, services))
    unmatched = _differences(before, match, ())
    for path, value in sorted(matches.items()):
        try:
            unmatched += _differences(_part(before, path.split("__")), value, (path,))
        except _Unmatched as error:
            unmatched.append(error.args[0])
    if unmatched:
        raise ValidationError({"match": ["__".join(path) for path in unmatched]})
    revised = before
    _remove(revised, removed)
    _merge(revised, update, "update")
    # New items come first, so that they can be named.
    for path, value in sorted(updates.items(), key=lambda item: (not item[0].endswith("extend"), item[0])):
        _merge_at(revised, path, value)
    revised["id"] = package.uuid
    future = save_described(call, services, package, revised, expected=package.generation)

    def told(made: Any) -> Any:
        document = {"package": shown(made, call, services)}
        _remove(document, included)
        return answer(call, document)

    return Deferred(future, told)


# ------------------------------------------------------------------ reading


def _document(read: Parameters, name: str) -> dict[str, Any]:
    given = with_floats(json_or(read.given.get(name) or {}))
    if not isinstance(given, dict):
        raise fault(name, "Not a dict")
    return given


def _parts(read: Parameters, start: str) -> dict[str, Any]:
    found = {name[len(start) :]: with_floats(json_or(v)) for name, v in read.given.items() if name.startswith(start)}
    if len(found) > MAX_PARTS or any(name.count("__") >= MAX_DEPTH for name in found):
        raise fault(start.rstrip("_"), f"More than {MAX_PARTS} parts, or one deeper than {MAX_DEPTH}")
    return found


def _patterns(read: Parameters, name: str) -> list[tuple[bool, list[str]]]:
    """Of each pattern whether it keeps what it names, and its keys."""
    given = read.listed(name) or []
    read.done()
    if len(given) > MAX_PARTS or any(text.count("__") >= MAX_DEPTH for text in given):
        raise fault(name, f"More than {MAX_PARTS} patterns, or one deeper than {MAX_DEPTH}")
    return [(text.startswith("+"), text.lstrip("+-").split("__")) for text in given]


# ------------------------------------------------------------------ parts


def _copy(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: _copy(value) for name, value in document.items()}
    return [_copy(item) for item in document] if isinstance(document, list) else document


def _index(items: Sequence[Any], key: str) -> int:
    """The place of the item that a key names. Raises _Unmatched."""
    if len(key) >= _SHORTEST_ID:
        for place, item in enumerate(items):
            if isinstance(item, dict) and str(item.get("id", "")).startswith(key):
                return place
    elif key.lstrip("-").isascii() and key.removeprefix("-").isdigit():
        place = int(key)
        if -len(items) <= place < len(items):
            return place % len(items)
    raise _Unmatched((key,))


def _part(document: Any, keys: Sequence[str]) -> Any:
    """Raises _Unmatched."""
    for number, key in enumerate(keys):
        try:
            if isinstance(document, list):
                document = document[_index(document, key)]
            elif isinstance(document, dict) and key in document:
                document = document[key]
            else:
                raise _Unmatched((key,))
        except _Unmatched:
            raise _Unmatched(tuple(keys[: number + 1])) from None
    return document


def _differences(document: Any, wanted: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The paths of what is not as it is wanted; what is not wanted may be anything."""
    if isinstance(wanted, dict) and isinstance(document, dict):
        pairs = [(name, document.get(name, _Unmatched), value) for name, value in sorted(wanted.items())]
    elif isinstance(wanted, list) and isinstance(document, list):
        rest = [_Unmatched] * max(len(wanted) - len(document), 0)
        pairs = [(str(i), item, value) for i, (item, value) in enumerate(zip([*document, *rest], wanted, strict=False))]
    else:
        return [] if document == wanted else [path]
    return [found for name, item, value in pairs for found in _differences(item, value, (*path, name))]


def _remove(document: Any, patterns: Sequence[tuple[bool, Sequence[str]]]) -> None:
    """Remove what the patterns name, the first that names something deciding of it; ``*`` names all that is left."""
    if not patterns or not isinstance(document, dict | list):
        return
    places = document if isinstance(document, dict) else range(len(document))
    decided: dict[Any, bool] = {}
    below: dict[Any, list[tuple[bool, Sequence[str]]]] = {}
    for keep, (head, *rest) in patterns:
        if head == "*":
            named = list(places)
        elif isinstance(document, dict):
            named = [head] if head in document else []
        else:
            try:
                named = [_index(document, head)]
            except _Unmatched:
                named = []
        for place in named:
            if rest:
                below.setdefault(place, []).append((keep, rest))
            else:
                decided.setdefault(place, keep)
    for place, further in below.items():
        if decided.get(place, True):
            _remove(document[place], further)
    for place in sorted((place for place, keep in decided.items() if not keep), reverse=True):
        del document[place]


def _merge(document: Any, update: Any, path: str, depth: int = 0) -> None:
    """Set what the update says, within dicts and lists that are there."""
    if depth > MAX_DEPTH:
        raise fault("update", f"Deeper than {MAX_DEPTH}")
    if not isinstance(update, dict if isinstance(document, dict) else list):
        raise fault("update", f"Expected {'dict' if isinstance(document, dict) else 'list'} for {path}")
    items = update.items() if isinstance(update, Mapping) else enumerate(update)
    for name, value in items:
        there = name in document if isinstance(document, dict) else name < len(document)
        if there and isinstance(document[name], dict | list):
            _merge(document[name], value, f"{path}__{name}", depth + 1)
        elif there or isinstance(document, dict):
            document[name] = value
        else:
            document.append(value)


def _merge_at(document: dict[str, Any], path: str, value: Any) -> None:
    """Set a part that is named by its path, or add to a list (``...__extend``)."""
    *above, last = path.split("__")
    try:
        within = _part(document, above)
        if isinstance(within, dict):
            _merge(within, {last: value}, path)
        elif isinstance(within, list) and last == "extend":
            if not isinstance(value, list):
                raise fault(path, f"Expected list for {'__'.join(above)[:200]}")
            within.extend(value)
        elif isinstance(within, list):
            _set_item(within, _index(within, last), value, path)
        else:
            raise _Unmatched((*above, last))
    except _Unmatched as error:
        raise fault(path, f"Unmatched key {'__'.join(error.args[0])[:200]}") from None


def _set_item(items: list[Any], place: int, value: Any, path: str) -> None:
    if isinstance(items[place], dict | list):
        _merge(items[place], value, path)
    else:
        items[place] = value
