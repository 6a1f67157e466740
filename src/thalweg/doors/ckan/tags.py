"""Actions on tags, vocabularies and licences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from thalweg.auth.policy import Action, require
from thalweg.domain.access import SERVER
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.packages import PackageQuery, Value, Vocabulary
from thalweg.doors.ckan import licenses
from thalweg.doors.ckan.catalogue import required_id, shown
from thalweg.doors.ckan.documents import tag_document, vocabulary_document
from thalweg.doors.ckan.errors import fault
from thalweg.doors.ckan.organizations import new_id
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Deferred, Response
from thalweg.services.packages import check_tag
from thalweg.services.services import Services

MAX_TAGS_LISTED: Final = 10_000
"""Most tags of one answer."""
_PACKAGES: Final = 1_000


def license_list(call: Call, services: Services) -> Response:
    """Licences that ``license_id`` can name; others are taken as they are."""
    return answer(call, [licenses.document(item) for item in licenses.LICENSES.values()])


def tag_list(call: Call, services: Services) -> Response:
    """Tags in use, or those of a vocabulary: their names, or with all_fields what they are."""
    read = Parameters(call.parameters)
    text = read.text("query") or read.text("q")
    key = read.text("vocabulary_id")
    limit, offset = min(read.natural("limit", MAX_TAGS_LISTED), MAX_TAGS_LISTED), read.natural("offset", 0)
    read.done()
    vocabulary = _vocabulary(services, key) if key else None
    if vocabulary is None:
        # Those of vocabularies are not listed here.
        values = services.packages.values("tags", call.request.principal, containing=text, limit=limit, offset=offset)
        bound = {tag for item in services.packages.vocabularies() for tag in item.tags}
        names = [name for name, _ in values if name not in bound]
    else:
        names = [tag for tag in vocabulary.tags if text.lower() in tag.lower()][offset : offset + limit]
    if not read.boolean("all_fields", False):
        return answer(call, names)
    return answer(call, [tag_document(name, None, vocabulary.uuid if vocabulary else None) for name in names])


def tag_show(call: Call, services: Services) -> Response:
    """A tag; with include_datasets its packages."""
    read = Parameters(call.parameters)
    key = required_id(call).rpartition(":")[2]
    vocabulary = _vocabulary(services, read.text("vocabulary_id")) if read.text("vocabulary_id") else None
    query = PackageQuery(Value("tags", key), limit=_PACKAGES, private=True)
    packages = services.packages.search(query, call.request.principal).packages
    if not packages and (vocabulary is None or key not in vocabulary.tags):
        raise NotFound("id", "Tag was not found.")
    found = tag_document(key, None, vocabulary.uuid if vocabulary else None)
    if read.boolean("include_datasets", False):
        found["packages"] = [shown(package, call, services) for package in packages]
    return answer(call, found)


def tag_search(call: Call, services: Services) -> Response:
    """Tags in use that contain a text."""
    read = Parameters(call.parameters)
    text = read.text("query") or read.text("q")
    limit, offset = min(read.natural("limit", 100), MAX_TAGS_LISTED), read.natural("offset", 0)
    read.done()
    if not text:
        return answer(call, {"count": 0, "results": []})
    found = services.packages.values("tags", call.request.principal, containing=text, limit=MAX_TAGS_LISTED)
    results = [tag_document(name) for name, _ in found[offset : offset + limit]]
    return answer(call, {"count": len(found), "results": results})


def tag_autocomplete(call: Call, services: Services) -> Response:
    """Names of tags in use that contain a text."""
    read = Parameters(call.parameters)
    text = read.text("query") or read.text("q")
    limit, offset = min(read.natural("limit", 10), 1_000), read.natural("offset", 0)
    read.done()
    if not text:
        return answer(call, [])
    found = services.packages.values("tags", call.request.principal, containing=text, limit=limit, offset=offset)
    return answer(call, [name for name, _ in found])


# ------------------------------------------------------------------ vocabularies


def _vocabulary(services: Services, key: str) -> Vocabulary:
    for vocabulary in services.packages.vocabularies():
        if key in (vocabulary.uuid, vocabulary.name):
            return vocabulary
    raise NotFound("id", "Vocabulary was not found.")


def _require_editor(call: Call) -> None:
    """Closed lists are the server's."""
    require(call.request.principal, Action.REGISTER, SERVER)


def vocabulary_list(call: Call, services: Services) -> Response:
    """Closed lists of tags."""
    return answer(call, [vocabulary_document(item) for item in services.packages.vocabularies()])


def vocabulary_show(call: Call, services: Services) -> Response:
    """A closed list of tags."""
    return answer(call, vocabulary_document(_vocabulary(services, required_id(call))))


def _tags(given: Any) -> tuple[str, ...]:
    tags = json_or(given or [])
    if not isinstance(tags, list) or not all(isinstance(t, dict) and isinstance(t.get("name"), str) for t in tags):
        raise fault("tags", "Not a list of dicts, each with a name")
    return tuple(tag["name"] for tag in tags)


def vocabulary_create(call: Call, services: Services) -> Deferred:
    """Make a closed list of tags; with the ``id`` it has elsewhere, packages that come from there find it."""
    _require_editor(call)
    name = Parameters(call.parameters).required("name")
    return _put(call, services, Vocabulary(0, new_id(call), name, _tags(call.parameters.get("tags"))))


def vocabulary_update(call: Call, services: Services) -> Deferred:
    """Change name or tags of a closed list."""
    _require_editor(call)
    vocabulary = _vocabulary(services, required_id(call))
    tags = call.parameters.get("tags")
    name = Parameters(call.parameters).text("name") or vocabulary.name
    return _put(call, services, replace(vocabulary, name=name, tags=vocabulary.tags if tags is None else _tags(tags)))


def vocabulary_delete(call: Call, services: Services) -> Deferred:
    """Remove a closed list; packages keep its tags."""
    _require_editor(call)
    vocabulary = _vocabulary(services, required_id(call))
    by = call.request.actor("ckan", call.name)
    future = services.packages.delete_vocabulary(vocabulary, call.request.principal, by)
    return Deferred(future, lambda _: answer(call, None))


def _put(call: Call, services: Services, vocabulary: Vocabulary) -> Deferred:
    by = call.request.actor("ckan", call.name)
    future = services.packages.put_vocabulary(vocabulary, call.request.principal, by)
    return Deferred(future, lambda made: answer(call, vocabulary_document(made)))


def tag_create(call: Call, services: Services) -> Deferred:
    """Add a tag to a closed list; free tags come with the packages that have them."""
    _require_editor(call)
    read = Parameters(call.parameters)
    read.need("name", "vocabulary_id")
    name = read.text("name")
    try:
        vocabulary = _vocabulary(services, read.text("vocabulary_id"))
    except NotFound:
        raise fault("vocabulary_id", "Tag vocabulary was not found.") from None
    if name in vocabulary.tags:
        raise fault("vocabulary_id", f"Tag {name[:100]} already belongs to vocabulary {vocabulary.uuid}")
    try:
        check_tag(name)
    except InvalidParameter as error:
        raise fault("name", error.message) from None
    by = call.request.actor("ckan", call.name)
    changed = replace(vocabulary, tags=(*vocabulary.tags, name))
    future = services.packages.put_vocabulary(changed, call.request.principal, by)
    return Deferred(future, lambda made: answer(call, tag_document(name, None, made.uuid)))


def tag_delete(call: Call, services: Services) -> Deferred:
    """Take a tag out of a closed list."""
    _require_editor(call)
    read = Parameters(call.parameters)
    name = required_id(call).rpartition(":")[2]
    vocabulary = _vocabulary(services, read.required("vocabulary_id"))
    if name not in vocabulary.tags:
        raise NotFound("id", "Tag was not found.")
    by = call.request.actor("ckan", call.name)
    changed = replace(vocabulary, tags=tuple(tag for tag in vocabulary.tags if tag != name))
    future = services.packages.put_vocabulary(changed, call.request.principal, by)
    return Deferred(future, lambda _: answer(call, None))
