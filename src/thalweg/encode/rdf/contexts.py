"""JSON-LD contexts that bodies may name by address: our own for TREE and LDES, and a folder of the operator's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import orjson

from thalweg.domain.errors import InvalidParameter
from thalweg.encode.rdf.read import Contexts, check_depth, contexts_of
from thalweg.encode.rdf.vocabulary import LDES, PREFIXES, SHACL, TREE

INDEX: Final = "index.json"
MAX_FILES: Final = 500
MAX_FILE_BYTES: Final = 1 << 20
OWN_CONTEXT: Final = "urn:thalweg:context:ldes"
"""Short names of TREE and LDES, for documents of the administration."""

_IDS: Final = {"@type": "@id"}
_OWN: Final[dict[str, Any]] = {
    **PREFIXES,
    "Collection": TREE + "Collection",
    "Node": TREE + "Node",
    "EventStream": LDES + "EventStream",
    "view": {"@id": TREE + "view", **_IDS},
    "member": {"@id": TREE + "member", **_IDS},
    "relation": {"@id": TREE + "relation", **_IDS},
    "node": {"@id": TREE + "node", **_IDS},
    "path": {"@id": TREE + "path", **_IDS},
    "shape": {"@id": TREE + "shape", **_IDS},
    "viewDescription": {"@id": TREE + "viewDescription", **_IDS},
    "timestampPath": {"@id": LDES + "timestampPath", **_IDS},
    "versionOfPath": {"@id": LDES + "versionOfPath", **_IDS},
    "retentionPolicy": {"@id": LDES + "retentionPolicy", **_IDS},
    "targetClass": {"@id": SHACL + "targetClass", **_IDS},
    "value": TREE + "value",
    "remainingItems": TREE + "remainingItems",
}


def load_contexts(folder: str) -> Contexts:
    """The contexts of a folder, and our own.

    folder   holds ``index.json``, an object whose keys are addresses and whose values are names of files in the same
             folder, each a JSON-LD document with ``@context``; empty: our own alone
    raises   InvalidParameter ``ldes_contexts`` for what is not there or not of that form
    """
    known: dict[str, Any] = {OWN_CONTEXT: _OWN}
    if folder:
        index = _read(Path(folder) / INDEX)
        if not isinstance(index, dict) or len(index) > MAX_FILES:
            raise _wrong(f"{INDEX} has to be an object of {MAX_FILES} addresses at most")
        for address, name in index.items():
            if not isinstance(name, str) or Path(name).name != name:
                raise _wrong(f"{INDEX} names for '{address}' no file of the same folder")
            document = _read(Path(folder) / name)
            check_depth(document)
            if not isinstance(document, dict) or "@context" not in document:
                raise _wrong(f"{name} has no @context")
            known[address] = document["@context"]
    return contexts_of(known)


def _read(file: Path) -> Any:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise _wrong(f"{file.name} is larger than {MAX_FILE_BYTES:,} bytes")
        return orjson.loads(file.read_bytes())
    except OSError as error:
        raise _wrong(f"{file.name} cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise _wrong(f"{file.name} is not JSON: {error}") from None


def _wrong(what: str) -> InvalidParameter:
    return InvalidParameter("ldes_contexts", f"The folder of JSON-LD contexts cannot be used: {what}.")
