"""The process that runs statements: asked over its standard input, answering over its standard output.

A question is a length of four bytes and a pickled tuple, ``("tables", sql)`` or ``("answer", sql, relations,
rows, time_s)``; an answer a length, a JSON object that says what came of it, and the bytes that it counts.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from thalweg.domain.errors import ThalwegError
from thalweg.domain.table_sql import MAX_TEMPORARY_BYTES, SqlFault, SqlForbidden
from thalweg.store.sqlite.sql.engine import HEAP_BYTES, Engine, Moved
from thalweg.store.sqlite.sql.made import OutOfTime

LENGTH: Final = struct.Struct(">I")
DATA_BYTES: Final = 8 * HEAP_BYTES
"""All memory of the process but its libraries: what Python's part of a statement takes is bounded by it."""


def restrict() -> None:
    """No core, little memory, no long files, no interrupt from a terminal that the server listens to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_TEMPORARY_BYTES, MAX_TEMPORARY_BYTES))
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))


def _reply(engine: Engine, question: tuple[Any, ...]) -> tuple[dict[str, Any], list[bytes]]:
    try:
        if question[0] == "tables":
            return {"tables": engine.tables(question[1])}, []
        _, sql, relations, rows, time_s = question
        answer = engine.answer(sql, relations, rows, time_s)
        return {"truncated": answer.truncated}, [answer.fields, answer.records]
    except SqlFault as error:
        return {"fault": error.message, "grammar": error.is_grammar}, []
    except SqlForbidden as error:
        return {"forbidden": error.message}, []
    except OutOfTime:
        return {"late": True}, []
    except Moved:
        return {"moved": True}, []
    except MemoryError:
        return {"fault": "the statement takes more memory than it may; ask for less at once", "last": True}, []
    except ThalwegError as error:
        return {"again": [type(error).__name__, error.parameter or "", error.message]}, []
    except Exception as error:  # (whatever it is, the server has to be told)
        return {"error": f"{type(error).__name__}: {error}"[:500]}, []


def serve(engine: Engine, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer questions until there are no more."""
    while True:
        head = source.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return
        question = pickle.loads(source.read(LENGTH.unpack(head)[0]))  # noqa: S301 (the server's own)
        said, parts = _reply(engine, question)
        said["sizes"] = [len(part) for part in parts]
        header = orjson.dumps(said)
        sink.write(b"".join((LENGTH.pack(len(header)), header, *parts)))
        sink.flush()
        if said.get("last"):
            return


def main() -> None:
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Nothing else may be written between the answers.
    os.dup2(2, 1)
    restrict()
    serve(Engine(Path(sys.argv[1])), source, sink)


if __name__ == "__main__":
    main()
