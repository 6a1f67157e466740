"""Whatever GDAL reads, through pyogrio: GML, KML, File Geodatabase, MapInfo and others. Needs the extra ``gdal``.

The only place that knows of pyogrio and nanoarrow, which have no types. Batches come as Arrow arrays, so that memory
is bounded and no feature is a Python object of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter, InvalidRequest, NotSupported
from thalweg.domain.features import MAX_FIELDS, FieldKind
from thalweg.loading.features.crs import srid_of_name, srid_of_wkt
from thalweg.loading.features.geometries import from_wkb
from thalweg.loading.features.source import BATCH_ROWS, Advance, Batch, ReadOptions, stem

_TYPES: Final = {
    "OFTInteger": FieldKind.INTEGER, "OFTInteger64": FieldKind.INTEGER, "OFTReal": FieldKind.NUMBER,
    "OFTString": FieldKind.TEXT, "OFTDate": FieldKind.DATE, "OFTDateTime": FieldKind.DATETIME,
    "OFTTime": FieldKind.TEXT,
}  # fmt: skip
_GML_ID: Final = "gml_id"
EXTRA: Final = "pip install 'thalweg[gdal]'"


def is_there() -> bool:
    """Whether the extra is installed."""
    try:
        import nanoarrow  # noqa: F401
        import pyogrio  # noqa: F401
    except ImportError:
        return False
    return True


class GdalSource:
    """A layer of a file that GDAL reads."""

    textual = False
    parse = None

    def __init__(self, path: Path, options: ReadOptions) -> None:
        try:
            import pyogrio
        except ImportError:
            raise NotSupported(
                f"Files such as '{path.name[:80]}' are read through GDAL, which is not installed: {EXTRA}."
            ) from None
        self.path = path
        self.notes: list[str] = []
        self.size = path.stat().st_size if path.is_file() else 0
        source = f"/vsizip/{path}" if path.suffix.lower() == ".zip" else str(path)
        self._source = source
        try:
            layers = [str(name) for name, _ in pyogrio.list_layers(source)]
            if not layers:
                raise InvalidRequest("The file holds no layer.")
            if options.layer and options.layer not in layers:
                raise InvalidParameter(
                    "source-layer", f"There is no layer '{options.layer[:60]}': {', '.join(layers)[:400]}."
                )
            if not options.layer and len(layers) > 1:
                raise InvalidParameter(
                    "layer", f"The file holds several layers, name one by --source-layer: {', '.join(layers)[:400]}."
                )
            self._name = options.layer or layers[0]
            self._encoding = options.encoding or None
            info = pyogrio.read_info(source, layer=self._name, encoding=self._encoding)
        except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError) as error:
            raise InvalidRequest(f"GDAL cannot read the file: {str(error)[:300]}.") from None
        self.format = f"{info['driver']} by GDAL"
        self.layer = self._name or stem(path)
        self.srid = self._crs(info.get("crs"))
        self._count = max(int(info.get("features") or 0), 0)
        types = [str(item) for item in info["ogr_types"]]
        subtypes = [str(item) for item in info["ogr_subtypes"]]
        self._has_gml_ids = False
        self.declared: dict[str, FieldKind | None] = {}
        for name, kind, subtype in zip(info["fields"].tolist(), types, subtypes, strict=True):
            if name == _GML_ID and info["driver"] == "GML":
                self._has_gml_ids = True
            elif kind == "OFTBinary":
                self.notes.append(f"the field '{name}' holds binary data and is left out")
            elif len(self.declared) < MAX_FIELDS:
                self.declared[name] = (
                    FieldKind.BOOLEAN if subtype == "OFSTBoolean" else _TYPES.get(kind, FieldKind.TEXT)
                )

    def close(self) -> None:
        pass

    def _crs(self, text: Any) -> int | None:
        if not isinstance(text, str) or not text:
            return None
        found = srid_of_name(text) or srid_of_wkt(text)
        if found is None:
            self.notes.append(f"its CRS is none of EPSG: {text[:80]}")
        return found

    def chunks(self, advance: Advance) -> Iterator[Batch]:
        """All features. Raises InvalidRequest."""
        import nanoarrow
        from pyogrio import errors, raw

        names = tuple(self.declared)
        wanted = [*names, _GML_ID] if self._has_gml_ids else list(names)
        first, done = 1, 0
        try:
            with raw.open_arrow(
                self._source, layer=self._name, encoding=self._encoding, columns=wanted, use_pyarrow=False,
                batch_size=BATCH_ROWS, return_fids=False,
            ) as (meta, stream), warnings.catch_warnings():  # fmt: skip
                # That geometries are WKB is known.
                warnings.simplefilter("ignore")
                geometry = meta["geometry_name"] or "wkb_geometry"
                for array in nanoarrow.ArrayStream(stream):
                    batch = self._batch(array, geometry, names, first)
                    yield batch
                    first += len(batch)
                    share = min(self.size, self.size * first // self._count) if self._count else 0
                    advance(max(0, share - done))
                    done = max(done, share)
        except (errors.DataSourceError, errors.DataLayerError, errors.FieldError, RuntimeError) as error:
            raise InvalidRequest(f"GDAL cannot read the file beyond feature {first:,}: {str(error)[:300]}.") from None
        advance(self.size - done)

    def _batch(self, array: Any, geometry: str, names: tuple[str, ...], first: int) -> Batch:
        fields = [str(array.schema.field(i).name) for i in range(array.n_children)]
        children = {name: array.child(i) for i, name in enumerate(fields)}
        count = len(array)
        blobs = list(children[geometry].iter_py()) if geometry in children else [None] * count
        geometries, problems = from_wkb([bytes(blob) if blob is not None else None for blob in blobs])
        columns = [_column(children[name], self.declared[name]) for name in names]
        ids = list(children[_GML_ID].iter_py()) if self._has_gml_ids else None
        return Batch(first, ids, geometries, problems, names, columns)


def _column(child: Any, kind: FieldKind | None) -> list[Any]:
    values = list(child.iter_py())
    if kind is FieldKind.DATE:
        return [None if v is None else v.isoformat() for v in values]
    if kind is FieldKind.DATETIME:
        return [None if v is None else v if isinstance(v, str) else v.isoformat() for v in values]
    if kind is FieldKind.TEXT:
        return [v if v is None or isinstance(v, str) else str(v) for v in values]
    return values
