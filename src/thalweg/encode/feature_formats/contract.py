"""The form of a writer of feature files: what doors and the command line need to know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from thalweg.domain.features import Features, Layer


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a file is to be written.

    srid       EPSG code of the batches' coordinates, which are x y
    fields     names of the fields to write, in the layer's order; None: all
    geometry   write it, too
    file_name  without extension, for what is inside of archives
    values     what the client asked for beside this, by lower-case name (``csvseparator``)
    """

    srid: int
    fields: tuple[str, ...] | None = None
    geometry: bool = True
    file_name: str = "features"
    values: dict[str, str] = field(default_factory=dict)


Writer: TypeAlias = Callable[[Layer, Iterable[Features], WriteOptions], Iterator[bytes]]
"""A whole file from a layer's batches, in blocks of bounded size; memory does not grow with the file (what needs a
seekable file goes through a temporary one)."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files.

    key           short name, unique
    names         what clients call it, the first is advertised
    content_type  media type, with charset where it is text
    extension     of file names, without dot
    fixed_srid    the only CRS it can hold; None: any
    """

    key: str
    names: tuple[str, ...]
    content_type: str
    extension: str
    write: Writer
    fixed_srid: int | None = None
