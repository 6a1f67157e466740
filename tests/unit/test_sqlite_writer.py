"""The writer: shared transactions, refusals that undo only themselves, bounds, and disks that fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import apsw
import pytest

from thalweg.domain.errors import DamagedData, InvalidParameter, StoreUnavailable
from thalweg.store import open_store
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.files import FileLock, StoreFiles
from thalweg.store.sqlite.writer import Transaction, Writer

WAIT_S = 20


@pytest.fixture
def files(tmp_path: Path) -> StoreFiles:
    open_store(f"sqlite:///{tmp_path / 'store.sqlite'}").close()
    connection = apsw.Connection(str(tmp_path / "store.sqlite"))
    connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT UNIQUE)")
    connection.close()
    return StoreFiles(tmp_path / "store.sqlite")


@pytest.fixture
def writer(files: StoreFiles) -> Iterator[Writer]:
    made = Writer(files)
    yield made
    made.close()


def notes(files: StoreFiles) -> list[str]:
    """What another connection sees committed."""
    connection = apsw.Connection(str(files.database), vfs="unix")
    try:
        return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY id")]
    finally:
        connection.close()


def commits(files: StoreFiles) -> int:
    connection = apsw.Connection(str(files.database), vfs="unix")
    try:
        ((value,),) = connection.execute("SELECT value FROM counter WHERE name = 'commit'")
        return int(value)
    finally:
        connection.close()


def note(text: str) -> object:
    def work(tx: Transaction) -> int:
        tx.rows("INSERT INTO note (text) VALUES (?)", (text,))
        return tx.commit

    return work


class Held:
    """Holds the file lock, so that requests gather into one batch."""

    def __init__(self, files: StoreFiles) -> None:
        self._lock = FileLock(files.lock)

    def __enter__(self) -> None:
        self._lock.acquire(5)

    def __exit__(self, *_: object) -> None:
        self._lock.close()


# ------------------------------------------------------------------ group commit


def test_waiting_requests_share_one_commit(writer: Writer, files: StoreFiles) -> None:
    writer.submit(note("first")).result(WAIT_S)
    before = commits(files)
    with Held(files):
        futures = [writer.submit(note(f"n{i}")) for i in range(50)]
        time.sleep(0.05)
        assert not any(f.done() for f in futures)
        assert notes(files) == ["first"]
    numbers = {f.result(WAIT_S) for f in futures}
    assert numbers == {before + 1}
    assert commits(files) == before + 1
    assert notes(files) == ["first", *(f"n{i}" for i in range(50))]


def test_batch_is_bounded(files: StoreFiles) -> None:
    writer = Writer(files, max_batch=8)
    with Held(files):
        futures = [writer.submit(note(f"n{i}")) for i in range(20)]
    numbers = [f.result(WAIT_S) for f in futures]
    writer.close()
    assert [numbers.count(n) for n in sorted(set(numbers))] == [8, 8, 4]


def test_result_comes_only_after_the_commit(writer: Writer, files: StoreFiles) -> None:
    seen: list[list[str]] = []
    for i in range(20):
        future = writer.submit(note(f"n{i}"))
        future.add_done_callback(lambda _: seen.append(notes(files)))
        future.result(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while len(seen) < 20 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [texts[-1] for texts in seen] == [f"n{i}" for i in range(20)]


def test_refused_request_undoes_only_itself(writer: Writer, files: StoreFiles) -> None:
    def refused(tx: Transaction) -> None:
        tx.rows("INSERT INTO note (text) VALUES ('half of it')")
        raise InvalidParameter("text", "not this one")

    def wrong(tx: Transaction) -> None:
        tx.rows("INSERT INTO note (text) VALUES ('half of this too')")
        raise ZeroDivisionError

    with Held(files):
        futures: list[Future[object]] = [
            writer.submit(note("a")), writer.submit(refused), writer.submit(note("b")),
            writer.submit(wrong), writer.submit(note("a")), writer.submit(note("c")),
        ]  # fmt: skip
    wait(futures, WAIT_S)
    assert isinstance(futures[1].exception(), InvalidParameter)
    assert isinstance(futures[3].exception(), ZeroDivisionError)
    assert isinstance(futures[4].exception(), apsw.ConstraintError)
    assert [f.exception() for i, f in enumerate(futures) if i in (0, 2, 5)] == [None] * 3
    assert notes(files) == ["a", "b", "c"]


def test_late_failure_without_a_savepoint_undoes_only_itself(writer: Writer, files: StoreFiles) -> None:
    """Said to decide first, it fails after it has written: the batch is run again, with savepoints."""
    runs: list[str] = []

    def counted(text: str) -> object:
        def work(tx: Transaction) -> None:
            runs.append(text)
            tx.rows("INSERT INTO note (text) VALUES (?)", (text,))

        return work

    def late(tx: Transaction) -> None:
        runs.append("late")
        tx.rows("INSERT INTO note (text) VALUES ('half of it')")
        raise InvalidParameter("text", "on second thoughts, no")

    def early(_: Transaction) -> None:
        runs.append("early")
        raise InvalidParameter("text", "no")

    with Held(files):
        futures = [writer.submit(w, decides_first=True) for w in (counted("a"), early, late, counted("b"))]
    wait(futures, WAIT_S)
    assert [type(f.exception()) for f in futures] == [type(None), InvalidParameter, InvalidParameter, type(None)]
    assert notes(files) == ["a", "b"]
    assert runs == ["a", "early", "late", "a", "early", "late", "b"]


def test_early_refusal_without_a_savepoint_costs_the_others_nothing(writer: Writer, files: StoreFiles) -> None:
    runs = 0

    def counted(tx: Transaction) -> None:
        nonlocal runs
        runs += 1
        tx.rows("INSERT INTO note (text) VALUES ('a')")

    def early(tx: Transaction) -> None:
        tx.rows("SELECT text FROM note")
        raise InvalidParameter("text", "no")

    with Held(files):
        futures = [writer.submit(w, decides_first=True) for w in (counted, early)]
    wait(futures, WAIT_S)
    assert isinstance(futures[1].exception(), InvalidParameter)
    assert runs == 1
    assert notes(files) == ["a"]


def test_commit_number_of_a_refused_request_is_not_given_twice(writer: Writer, files: StoreFiles) -> None:
    def refused(tx: Transaction) -> None:
        assert tx.commit
        raise InvalidParameter("text", "no")

    first = writer.submit(note("a")).result(WAIT_S)
    with pytest.raises(InvalidParameter):
        writer.submit(refused).result(WAIT_S)
    assert writer.submit(note("b")).result(WAIT_S) > first


def test_damaged_page_hits_only_the_request_that_reads_it(writer: Writer, files: StoreFiles) -> None:
    def reads(_: Transaction) -> None:
        raise apsw.CorruptError("database disk image is malformed")

    with Held(files):
        one, two = writer.submit(reads), writer.submit(note("fine"))
    assert isinstance(one.exception(WAIT_S), DamagedData)
    assert two.exception(WAIT_S) is None
    assert notes(files) == ["fine"]


# ------------------------------------------------------------------ joined writes


def join(writer: Writer, text: str, key: str = "k") -> Future[tuple[str, int]]:
    """A note; refused if it begins with an exclamation mark. Gives the text and how many were written with it."""

    def work(tx: Transaction, texts: list[str]) -> list[tuple[str, int] | BaseException]:
        kept = [t for t in texts if not t.startswith("!")]
        tx.many("INSERT INTO note (text) VALUES (?)", [(t,) for t in kept])
        return [InvalidParameter("text", t) if t.startswith("!") else (t, len(kept)) for t in texts]

    return writer.submit_joined(key, text, work)


def test_writes_of_one_key_that_wait_are_done_together(writer: Writer, files: StoreFiles) -> None:
    with Held(files):
        futures = [join(writer, text) for text in ("a", "!b", "c")]
        futures.append(join(writer, "d", "other"))
    assert futures[0].result(WAIT_S) == ("a", 2)
    assert isinstance(futures[1].exception(WAIT_S), InvalidParameter)
    assert futures[2].result(WAIT_S) == ("c", 2)
    assert futures[3].result(WAIT_S) == ("d", 1)
    assert notes(files) == ["a", "c", "d"]
    assert writer.queued == 0


def test_joined_writes_keep_their_order_among_others(writer: Writer, files: StoreFiles) -> None:
    with Held(files):
        futures: list[Future[object]] = [join(writer, "a"), writer.submit(note("between")), join(writer, "c")]  # type: ignore[list-item]
    wait(futures, WAIT_S)
    assert notes(files) == ["a", "between", "c"]


def test_what_fails_as_a_whole_fails_for_all_that_joined(writer: Writer, files: StoreFiles) -> None:
    with Held(files):
        before = writer.submit(note("before"))
        # The second one breaks the rule that texts are unique, after the first was written.
        futures = [join(writer, "same"), join(writer, "same")]
        after = writer.submit(note("after"))
    assert all(isinstance(future.exception(WAIT_S), apsw.ConstraintError) for future in futures)
    assert (before.exception(WAIT_S), after.exception(WAIT_S)) == (None, None)
    assert notes(files) == ["before", "after"]


def test_one_of_the_joined_writes_may_be_cancelled(writer: Writer, files: StoreFiles) -> None:
    with Held(files):
        futures = [join(writer, text) for text in ("a", "b", "c")]
        assert futures[1].cancel()
    wait([futures[0], futures[2]], WAIT_S)
    assert notes(files) == ["a", "c"]


def test_joined_writes_count_for_the_bounds(files: StoreFiles) -> None:
    writer = Writer(files, max_queue=3, max_batch=2)
    with Held(files):
        futures = [join(writer, text) for text in ("a", "b", "c", "d")]
        assert writer.queued == 3
        assert isinstance(futures[3].exception(timeout=0.01), StoreUnavailable)
    assert [future.result(WAIT_S)[1] for future in futures[:3]] == [2, 2, 1]
    writer.close()
    assert isinstance(join(writer, "late").exception(0), StoreUnavailable)


# ------------------------------------------------------------------ bounds


def test_full_queue_refuses_at_once(files: StoreFiles) -> None:
    writer = Writer(files, max_queue=3)
    with Held(files):
        futures = [writer.submit(note(f"n{i}")) for i in range(5)]
        for future in futures[3:]:
            error = future.exception(timeout=0.01)
            assert isinstance(error, StoreUnavailable)
            assert "3 writes are waiting" in error.message
    assert [f.exception(WAIT_S) for f in futures[:3]] == [None] * 3
    writer.close()
    assert notes(files) == ["n0", "n1", "n2"]


def test_lock_held_too_long_refuses_all_that_wait_and_then_goes_on(files: StoreFiles) -> None:
    writer = Writer(files, lock_timeout_s=0.2)
    with Held(files):
        futures = [writer.submit(note(f"n{i}")) for i in range(3)]
        for future in futures:
            assert isinstance(future.exception(WAIT_S), StoreUnavailable)
    assert notes(files) == []
    writer.submit(note("later")).result(WAIT_S)
    writer.close()
    assert notes(files) == ["later"]


def test_cancelled_request_is_not_run(writer: Writer, files: StoreFiles) -> None:
    with Held(files):
        futures = [writer.submit(note(f"n{i}")) for i in range(3)]
        assert futures[1].cancel()
    wait([futures[0], futures[2]], WAIT_S)
    assert notes(files) == ["n0", "n2"]


def test_closing_finishes_what_is_queued_and_refuses_the_rest(files: StoreFiles) -> None:
    writer = Writer(files)
    with Held(files):
        futures = [writer.submit(note(f"n{i}")) for i in range(10)]
        closing = threading.Thread(target=writer.close)
        closing.start()
        time.sleep(0.05)
        late = writer.submit(note("late"))
    closing.join(WAIT_S)
    assert all(f.exception(0) is None for f in futures)
    assert isinstance(late.exception(0), StoreUnavailable)
    assert notes(files) == [f"n{i}" for i in range(10)]


def test_work_alone_runs_outside_a_transaction_between_the_others(writer: Writer, files: StoreFiles) -> None:
    states: list[tuple[bool, list[str]]] = []

    def alone(connection: apsw.Connection) -> str:
        states.append((connection.in_transaction, notes(files)))
        return "done"

    with Held(files):
        one = writer.submit(note("a"))
        two = writer.submit_alone(alone)
        three = writer.submit(note("b"))
    assert two.result(WAIT_S) == "done"
    wait([one, three], WAIT_S)
    assert states == [(False, ["a"])]
    assert notes(files) == ["a", "b"]


# ------------------------------------------------------------------ failing disks


class Disk:
    """Which calls fail: ``sync`` or ``write``, and with what; a number of calls, or all with None."""

    def __init__(self) -> None:
        self.fails: dict[str, tuple[int, int | None]] = {}
        self.then: dict[str, tuple[int, int | None]] = {}
        """what fails from the first failure on"""
        self.reserve: Path | None = None

    def strike(self, call: str, name: str) -> None:
        if call not in self.fails or not name.endswith(("-wal", ".sqlite")):
            return
        code, left = self.fails[call]
        if self.reserve is not None and not self.reserve.exists():
            return
        if left is not None:
            if left == 0:
                return
            self.fails[call] = (code, left - 1)
        self.fails.update(self.then)
        raise apsw.exception_for(code)


class FaultyFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: apsw.URIFilename | str | None, flags: list[int]) -> None:
        self._disk = disk
        self._name = name if isinstance(name, str) else name.filename() if name is not None else ""
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.strike("write", self._name)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.strike("sync", self._name)
        super().xSync(flags)


class FaultyVFS(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__("faulty", "unix", makedefault=True)

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> FaultyFile:  # noqa: N802
        return FaultyFile(self._disk, name, flags)


@pytest.fixture
def disk(files: StoreFiles) -> Iterator[Disk]:
    made = Disk()
    vfs = FaultyVFS(made)
    yield made
    vfs.unregister()


def reopened(files: StoreFiles) -> int:
    connection = apsw.Connection(str(files.database), vfs="unix")
    try:
        ((value,),) = connection.execute("SELECT value FROM counter WHERE name = 'reopened'")
        return int(value)
    finally:
        connection.close()


def test_failed_sync_refuses_the_commit_and_the_next_one_is_safe(disk: Disk, files: StoreFiles) -> None:
    writer = Writer(files)
    writer.submit(note("before")).result(WAIT_S)
    disk.fails["sync"] = (apsw.SQLITE_IOERR, 1)
    error = writer.submit(note("lost")).exception(WAIT_S)
    assert isinstance(error, StoreUnavailable)
    # The log was written over with a commit of its own at once.
    assert reopened(files) == 1
    assert notes(files) == ["before"]
    writer.submit(note("after")).result(WAIT_S)
    assert notes(files) == ["before", "after"]
    writer.close()


def test_refused_commit_does_not_come_back_after_a_crash(disk: Disk, files: StoreFiles) -> None:
    """The frames of a commit whose sync failed are in the log, complete: a recovery would replay them."""
    readers = Readers(files.database)
    assert readers.rows("SELECT text FROM note") == []
    writer = Writer(files)
    writer.submit(note("before")).result(WAIT_S)
    # The sync of this commit, and then the writing of one that is to take its place.
    disk.fails["sync"] = (apsw.SQLITE_IOERR, 1)
    disk.then["write"] = (apsw.SQLITE_IOERR, None)
    assert isinstance(writer.submit(note("lost")).exception(WAIT_S), StoreUnavailable)
    assert crashed(files, "at once") == ["before", "lost"]
    disk.fails.clear()
    # Any next request makes sure of it, even one that writes nothing itself.
    writer.submit(lambda tx: tx.rows("SELECT 1")).result(WAIT_S)
    assert crashed(files, "later") == ["before"]
    writer.close()
    readers.close()


def crashed(files: StoreFiles, name: str) -> list[str]:
    """What a recovery finds in a copy of the files as they are."""
    copy = files.database.parent / name
    copy.mkdir()
    for suffix in ("", "-wal"):
        (copy / f"store.sqlite{suffix}").write_bytes(files.beside(suffix).read_bytes())
    return notes(StoreFiles(copy / "store.sqlite"))


def test_disk_that_stays_broken_refuses_until_it_works(disk: Disk, files: StoreFiles) -> None:
    writer = Writer(files)
    writer.submit(note("before")).result(WAIT_S)
    disk.fails["write"] = (apsw.SQLITE_IOERR, None)
    for _ in range(3):
        assert isinstance(writer.submit(note("lost")).exception(WAIT_S), StoreUnavailable)
    readers = Readers(files.database)
    assert readers.rows("SELECT text FROM note") == [("before",)]
    disk.fails.clear()
    writer.submit(note("after")).result(WAIT_S)
    assert readers.rows("SELECT text FROM note ORDER BY id") == [("before",), ("after",)]
    readers.close()
    writer.close()


def test_full_disk_refuses_inserts_and_lets_deletions_use_the_reserve(disk: Disk, files: StoreFiles) -> None:
    writer = Writer(files)
    writer.submit(note("before")).result(WAIT_S)
    # Room comes from the reserve alone.
    disk.fails["write"] = (apsw.SQLITE_FULL, None)
    disk.reserve = files.reserve
    assert files.reserve.exists()
    error = writer.submit(note("too much")).exception(WAIT_S)
    assert isinstance(error, StoreUnavailable)
    assert "full" in error.message
    assert files.reserve.exists()
    with Held(files):
        insert = writer.submit(note("still too much"))
        delete = writer.submit(lambda tx: tx.rows("DELETE FROM note RETURNING text"), frees_space=True)
    assert delete.result(WAIT_S) == [("before",)]
    assert isinstance(insert.exception(WAIT_S), StoreUnavailable)
    assert not files.reserve.exists()
    assert notes(files) == []
    writer.close()


def test_writes_held_back_share_one_commit(files: StoreFiles, writer: Writer) -> None:
    writer.submit(note("first")).result(WAIT_S)
    before = commits(files)
    with writer.held():
        futures = [writer.submit(note(f"held {number}")) for number in range(20)]
        time.sleep(0.05)
        assert not any(future.done() for future in futures)
        assert commits(files) == before
    assert {future.result(WAIT_S) for future in futures} == {before + 1}
    assert len(notes(files)) == 21


def test_waiting_for_a_write_held_back_begins_it(files: StoreFiles, writer: Writer) -> None:
    writer.submit(note("first")).result(WAIT_S)
    with writer.held():
        earlier = writer.submit(note("earlier"))
        assert writer.submit(note("later")).result(WAIT_S) == earlier.result(WAIT_S)
        with pytest.raises(apsw.ConstraintError):
            writer.submit(note("later")).result(WAIT_S)
        assert isinstance(writer.submit(note("later")).exception(WAIT_S), apsw.ConstraintError)
    assert notes(files) == ["first", "earlier", "later"]


def test_one_thread_holds_back_at_a_time(files: StoreFiles, writer: Writer) -> None:
    writer.submit(note("first")).result(WAIT_S)

    def other() -> None:
        with writer.held():
            writer.submit(note("other"))

    with writer.held():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(WAIT_S)
        mine = writer.submit(note("mine"))
        assert not mine.done()
    mine.result(WAIT_S)
    assert notes(files) == ["first", "other", "mine"]


def test_closing_finishes_what_is_held_back(files: StoreFiles) -> None:
    writer = Writer(files)
    writer.submit(note("first")).result(WAIT_S)
    with writer.held():
        held = writer.submit(note("held"))
        writer.close()
    assert held.done()
    assert notes(files) == ["first", "held"]
