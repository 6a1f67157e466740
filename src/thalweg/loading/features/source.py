"""What every reader of vector files gives: batches of geometries and columns, and what the file says of itself."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

from thalweg.domain.features import FieldKind
from thalweg.loading.features.geometries import GeometryArray

BATCH_ROWS: Final = 2_000

Advance = Callable[[int], None]


@dataclass(slots=True)
class Batch:
    """Features in the order of the file.

    first       number of the first one in the file, from 1
    ids         (n,) what the file gives as ids, integers or texts, None where it gives none; None: it has no ids
    geometries  (n,) geometry objects, None where there is none or it could not be read
    problems    (index, why) of those that could not be read
    names       (m,) fields that the columns hold; others that the file has are null here
    columns     m lists of n values: None, bool, int, float, str; a DATE or DATETIME may be an ISO 8601 text
    lost        features that could not be read at all, (number in the file, why); they are not among the n
    """

    first: int
    ids: list[Any] | None
    geometries: GeometryArray
    problems: list[tuple[int, str]]
    names: tuple[str, ...]
    columns: list[list[Any]]
    lost: list[tuple[int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.geometries)


class Source(Protocol):
    """A layer of a file. ``chunks`` once; then the rest is known for certain.

    format     name of the format, for messages
    layer      the layer's name in the file, or the file's stem
    srid       EPSG code of the coordinates, None if the file does not tell or EPSG has no such CRS
    declared   fields that the file declares, in its order, None where it does not say what they hold
    textual    values are texts whatever they mean (CSV)
    notes      what was assumed or left out, sentences
    size       bytes that ``chunks`` will report to ``advance``
    parse      a function of a module that makes a batch of a chunk, in this or another process; None: chunks are
               batches
    """

    format: str
    layer: str
    srid: int | None
    declared: dict[str, FieldKind | None]
    textual: bool
    notes: list[str]
    size: int

    @property
    def parse(self) -> Callable[[Any], Batch] | None: ...

    def chunks(self, advance: Advance) -> Iterator[Any]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the caller says of a file beside itself.

    layer     name of the layer in a file that has several
    srid      CRS, where the file is silent or wrong
    id_field  the field whose values become ids
    x, y, wkt columns of a table that hold the place
    encoding  of texts, where the format leaves it open
    delimiter, decimal  of a table
    """

    layer: str = ""
    srid: int | None = None
    id_field: str = ""
    x: str = ""
    y: str = ""
    wkt: str = ""
    encoding: str = ""
    delimiter: str = ""
    decimal: str = "."


def stem(path: Path) -> str:
    """The file's name without its endings."""
    name = path.name
    for ending in (".gz", ".zip"):
        name = name[: -len(ending)] if name.lower().endswith(ending) else name
    base, dot, _ = name.rpartition(".")
    return base if dot and base else name


def open_binary(path: Path) -> BinaryIO:
    """The file's bytes, uncompressed if it ends in ``.gz``; to be closed by the caller."""
    return cast(BinaryIO, gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb"))
