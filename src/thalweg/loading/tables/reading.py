"""Reading a file in a process of its own, so that values are converted beside the writing of those before.

The two speak by messages (a tag, then what the tag says):

* from the reader ``shape`` (Shape, fields), answered by what makes batches; ``batch`` (Batch, bytes read); ``again``
  (fields), when a value far down is none of the type that the first rows suggested: all is read for types, and sent
  anew; ``end``; ``fault`` (class of error, parameter, message)
"""

from __future__ import annotations

import gc
import os
import queue
import resource
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter, ThalwegError
from thalweg.domain.table_values import FieldType, type_named
from thalweg.domain.tables import BadRecord, Batch, Field
from thalweg.loading.tables.guess import Column, guess_columns, notes_on
from thalweg.loading.tables.opening import open_source
from thalweg.loading.tables.source import ReadOptions, Source

MAX_MEMORY_BYTES: Final = 4 << 30
"""Of the reading process: a file made to unpack beyond all measure is refused, and takes nobody else's memory."""
WAITING: Final = 3
"""Batches that are converted ahead of the writer."""
SAMPLE_BLOCKS: Final = 1
"""Blocks that types are guessed from at first."""
COLLECT_AFTER: Final = 200_000
"""Objects made and not let go of before the process looks for garbage: more than the rows of what is converted."""

Maker = Callable[[Sequence[Sequence[Any]]], Batch]


def read_file(
    connection: Connection,
    path: Path,
    name: str,
    options: ReadOptions,
    given: Mapping[str, str],
    fixed: Sequence[Field],
    closed: bool = False,
    memory_bytes: int = MAX_MEMORY_BYTES,
) -> None:
    """What the process does.

    given  types by name of field, as the caller says
    fixed  fields of the table that keep their types
    closed whether the file may have no others
    """
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    fault: tuple[str, str, str] | None = None
    try:
        _read(connection, path, name, options, given, fixed, closed)
    except (BrokenPipeError, EOFError, KeyboardInterrupt):
        return
    except MemoryError:
        fault = ("TooLarge", "", "The file takes more memory than a load may have.")
    except ThalwegError as error:
        fault = (type(error).__name__, error.parameter or "", error.message)
    except Exception as error:
        # A library that meets a file it was not made for.
        fault = ("InvalidRequest", "", f"The file cannot be read: {type(error).__name__}: {str(error)[:200]}.")
    if fault is not None:
        # Only here, where what was read is let go of: telling of it takes some memory, too.
        _send(connection, ("fault", *fault))


def read_apart(*arguments: Any) -> None:
    """``read_file`` as the target of a process. Rows are no cycles: looking through all that there is again and again
    for any that are garbage would take a fifth of its time."""
    # The reader of workbooks says more than who loads one wants to know, when it ends by a lack of memory.
    os.environ["RUST_BACKTRACE"] = "0"
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    read_file(*arguments)


def _send(connection: Connection, message: tuple[Any, ...]) -> None:
    with suppress(BrokenPipeError, OSError):
        connection.send(message)


def _read(
    connection: Connection,
    path: Path,
    name: str,
    options: ReadOptions,
    given: Mapping[str, str],
    fixed: Sequence[Field],
    closed: bool,
) -> None:
    source = open_source(path, options, name)
    shape = source.shape
    known = _known(source, given, fixed, closed)
    sample = (values for values, _ in islice(source.blocks(), SAMPLE_BLOCKS))
    columns = guess_columns(sample, shape, known, options.missing)
    connection.send(("shape", shape, _fields(source, columns)))
    make: Maker = connection.recv()
    try:
        _send_batches(connection, source, columns, make)
    except BadRecord as error:
        wider = guess_columns((values for values, _ in source.blocks()), shape, known, options.missing)
        if wider == columns:
            # It is none of a type that was said.
            raise InvalidParameter("records", f"{source.place(error.row or 0)}: {error.message}") from None
        columns = wider
        connection.send(("again", shape, _fields(source, columns)))
        make = connection.recv()
        try:
            _send_batches(connection, source, columns, make)
        except BadRecord as still:
            raise InvalidParameter("records", f"{source.place(still.row or 0)}: {still.message}") from None
    shape.notes += notes_on(columns, shape.names, options.missing)
    connection.send(("end", shape))


def _known(
    source: Source, given: Mapping[str, str], fixed: Sequence[Field], closed: bool
) -> list[tuple[FieldType, bool] | None]:
    """The types that need not be guessed. Raises InvalidParameter."""
    names = source.shape.names
    known = list(source.shape.types)
    for name, text in given.items():
        found = type_named(text)
        if name not in names:
            raise InvalidParameter("type", f"The file has no column {name[:100]!r}; it has {', '.join(names)[:500]}.")
        if found is None:
            raise InvalidParameter("type", f"The type {text[:100]!r} is not known.")
        known[names.index(name)] = found
    there = {field.name: (field.kind, field.is_array) for field in fixed}
    for place, name in enumerate(names):
        if name in there:
            known[place] = there[name]
        elif closed:
            raise InvalidParameter("fields", f"The table has no field {name[:100]!r}.")
    return known


def _fields(source: Source, columns: Sequence[Column]) -> list[Field]:
    return [
        Field(name, column.kind, column.is_array, info={})
        for name, column in zip(source.shape.names, columns, strict=True)
    ]


def _send_batches(connection: Connection, source: Source, columns: Sequence[Column], make: Maker) -> None:
    """Convert here while a thread sends what is ready."""
    waiting: queue.Queue[tuple[Any, ...] | None] = queue.Queue(WAITING)
    broken = threading.Event()

    def send() -> None:
        while (message := waiting.get()) is not None:
            try:
                if not broken.is_set():
                    connection.send(message)
            except OSError:
                broken.set()

    sender = threading.Thread(target=send, name="batches")
    sender.start()
    try:
        for batch, size in _batches(source, columns, make):
            if broken.is_set():
                raise BrokenPipeError
            waiting.put(("batch", batch, size))
    finally:
        waiting.put(None)
        sender.join()


def _batches(source: Source, columns: Sequence[Column], make: Maker) -> Iterator[tuple[Batch, int]]:
    """Raises BadRecord with the row counted from the file's first."""
    done = 0
    for block, size in source.blocks():
        try:
            batch = make([column.plain(values) for column, values in zip(columns, block, strict=True)])
        except BadRecord as error:
            raise BadRecord("records", error.message, done + (error.row or 0)) from None
        done += batch.length
        yield batch, size
