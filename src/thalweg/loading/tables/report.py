"""What a load of a table tells."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class TableLoadReport:
    """What was found in a file and stored.

    format     ``csv``, ``tsv``, ``json``, ``geojson``, ``xlsx``, ``parquet``
    encoding, delimiter, header   of files of text; ``header``: names were taken from the first row
    fields     name and type of each, as PostgreSQL names it
    notes      what was decided that the file does not say, and what was mended
    """

    rows: int = 0
    format: str = ""
    encoding: str = ""
    delimiter: str = ""
    header: bool = False
    fields: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
