"""The answer to a transaction, per version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from thalweg.domain.features import Delete, EditReceipt, Insert, Layer, Replace, Update
from thalweg.doors.http import Response
from thalweg.doors.wfs.versions import FES2, OGC, V10, V11, WFS1, WFS2
from thalweg.encode.xmltext import attribute, escape

_KINDS: Final = (("Inserted", Insert), ("Updated", Update), ("Replaced", Replace), ("Deleted", Delete))


@dataclass(frozen=True, slots=True)
class Done:
    """An edit that was made. ``handle`` is its action's."""

    handle: str
    layer: Layer
    receipt: EditReceipt

    @property
    def ids(self) -> list[str]:
        """Ids of the features, as the client knows them."""
        return [self.layer.feature_id(number) for number in self.receipt.ids.tolist()]


def response(done: Sequence[Done], version: str) -> Response:
    """What was done (OGC 02-058 clause 11.4, 04-094 clause 12.3, 09-025r2 clause 15.3)."""
    if version == V10:
        return Response(_response_10(done), "text/xml")
    content = _response_11(done) if version == V11 else _response_20(done)
    return Response(content, "text/xml" if version == V11 else "application/xml")


def _total(done: Sequence[Done], kind: type) -> int:
    return sum(len(item.receipt.ids) for item in done if isinstance(item.receipt.edit, kind))


def _handle(handle: str) -> str:
    return f' handle="{attribute(handle)}"' if handle else ""


def _response_20(done: Sequence[Done]) -> bytes:
    totals = "".join(f"<wfs:total{name}>{_total(done, kind)}</wfs:total{name}>" for name, kind in _KINDS)
    results = ""
    for name, kind in (("Insert", Insert), ("Update", Update), ("Replace", Replace)):
        features = "".join(
            f'<wfs:Feature{_handle(item.handle)}><fes:ResourceId rid="{attribute(text)}"/></wfs:Feature>'
            for item in done
            if isinstance(item.receipt.edit, kind)
            for text in item.ids
        )
        if features:
            results += f"<wfs:{name}Results>{features}</wfs:{name}Results>"
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<wfs:TransactionResponse xmlns:wfs="{WFS2}" xmlns:fes="{FES2}" '
        f'version="2.0.0"><wfs:TransactionSummary>{totals}</wfs:TransactionSummary>{results}'
        "</wfs:TransactionResponse>\n"
    ).encode()


def _response_11(done: Sequence[Done]) -> bytes:
    totals = "".join(
        f"<wfs:total{name}>{_total(done, kind)}</wfs:total{name}>" for name, kind in _KINDS if kind is not Replace
    )
    features = "".join(
        f'<wfs:Feature{_handle(item.handle)}><ogc:FeatureId fid="{attribute(text)}"/></wfs:Feature>'
        for item in done
        if isinstance(item.receipt.edit, Insert)
        for text in item.ids
    )
    results = f"<wfs:InsertResults>{features}</wfs:InsertResults>" if features else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<wfs:TransactionResponse xmlns:wfs="{WFS1}" xmlns:ogc="{OGC}" '
        f'version="1.1.0"><wfs:TransactionSummary>{totals}</wfs:TransactionSummary>{results}'
        "</wfs:TransactionResponse>\n"
    ).encode()


def _response_10(done: Sequence[Done]) -> bytes:
    results = ""
    for item in done:
        if isinstance(item.receipt.edit, Insert) and len(item.receipt.ids):
            ids = "".join(f'<ogc:FeatureId fid="{attribute(text)}"/>' for text in item.ids)
            results += f"<wfs:InsertResult{_handle(item.handle)}>{ids}</wfs:InsertResult>"
    status = "<wfs:TransactionResult><wfs:Status><wfs:SUCCESS/></wfs:Status></wfs:TransactionResult>"
    return _document_10(results + status)


def failed_10(locator: str | None, message: str) -> bytes:
    """The answer of 1.0.0 to a transaction that was undone."""
    where = f"<wfs:Locator>{escape(locator)}</wfs:Locator>" if locator else ""
    return _document_10(
        f"<wfs:TransactionResult><wfs:Status><wfs:FAILED/></wfs:Status>{where}"
        f"<wfs:Message>{escape(message)}</wfs:Message></wfs:TransactionResult>"
    )


def _document_10(content: str) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<wfs:WFS_TransactionResponse xmlns:wfs="{WFS1}" xmlns:ogc="{OGC}" '
        f'version="1.0.0">{content}</wfs:WFS_TransactionResponse>\n'
    ).encode()
