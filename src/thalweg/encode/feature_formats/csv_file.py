"""CSV (RFC 4180): a line per feature, its id first, the geometry as well-known text."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Final

import shapely

from thalweg.domain.csv_lines import csv_writer
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Features, Layer
from thalweg.encode.feature_formats.columns import fields_of, geometries_of, shapes_of, texts_of
from thalweg.encode.feature_formats.contract import WriteOptions

_SEPARATORS: Final = {
    "": ",",
    ",": ",",
    "comma": ",",
    ";": ";",
    "semicolon": ";",
    "tab": "\t",
    "space": " ",
    " ": " ",
    "\t": "\t",
    "|": "|",
}


def write(layer: Layer, batches: Iterable[Features], options: WriteOptions) -> Iterator[bytes]:
    """The file in UTF-8. Missing values and empty texts are empty fields.

    values  ``csvseparator``: ``comma``, ``semicolon``, ``tab``, ``space`` or the sign itself
    raises  InvalidParameter (``format_options``) for another separator
    """
    wanted = options.values.get("csvseparator", "")
    separator = _SEPARATORS.get(wanted.strip().lower() or wanted)
    if separator is None:
        raise InvalidParameter(
            "format_options", f"'{wanted[:20]}' is no separator; use comma, semicolon, tab or space."
        )
    fields = fields_of(layer, options)
    has_geometry = layer.has_geometry and options.geometry
    names = ["FID", *(item.name for item in fields), *([layer.geometry_field] if has_geometry else [])]
    yield _lines([names], separator)
    for features in batches:
        columns: list[list[str | None]] = [[layer.feature_id(number) for number in features.ids.tolist()]]
        columns += [texts_of(features, item) for item in fields]
        if has_geometry:
            shapes = shapes_of(geometries_of(layer, features, options))
            columns.append(shapely.to_wkt(shapes, rounding_precision=-1).tolist())
        yield _lines(zip(*columns, strict=True), separator)


def _lines(rows: Iterable[Iterable[str | None]], separator: str) -> bytes:
    text = io.StringIO(newline="")
    csv_writer(text, delimiter=separator, end="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")
