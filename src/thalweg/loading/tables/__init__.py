"""Files of records into tables: CSV, TSV, JSON, GeoJSON, XLSX, Parquet.

``opening`` says by which of ``text``, ``json_rows``, ``sheet`` and ``parquet`` a file is read; ``guess`` finds the
types of its fields, ``reading`` makes batches of it in a process of its own, and ``load`` has them stored.
"""

from thalweg.loading.tables.load import TableLoadOptions, load_table_file
from thalweg.loading.tables.report import TableLoadReport

__all__ = ["TableLoadOptions", "TableLoadReport", "load_table_file"]
