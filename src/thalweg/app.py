"""The only place where doors, services and a store meet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from thalweg.domain.errors import StoreUnavailable
from thalweg.settings import Settings

if TYPE_CHECKING:
    from thalweg.domain.store import Finding, Store
    from thalweg.domain.tables import Table
    from thalweg.doors.door import Door
    from thalweg.server.asgi import Asgi
    from thalweg.server.contract import Direct
    from thalweg.server.metrics import Metrics
    from thalweg.services.services import Services
    from thalweg.services.streams import Streams

# Imports are made where they are needed: the command line asks this module for help texts, too.


class Application:
    """One process' store, services and doors."""

    def __init__(self, settings: Settings, store: Store) -> None:
        from thalweg.auth.tries import tries_at
        from thalweg.services.hooks import HookWork
        from thalweg.services.services import Services
        from thalweg.services.stream_work import StreamWork
        from thalweg.services.table_jobs import JobRunner

        self.settings = settings
        self.store = store
        tries = tries_at(Path(store_file(settings) + ".tries"))
        self.services: Services = Services.over(store, settings, tries)
        self.stream_work = StreamWork(
            store,
            retention_s=settings.stream_retention_s,
            grace_us=round(settings.stream_grace_s * 1_000_000),
        )
        self.hook_work = HookWork(store, self.services.tables, settings.webhook_targets)
        self.job_runner = JobRunner(store, partial(load_command, settings))
        self._closers: list[Callable[[], None]] = [
            self.job_runner.close,
            self.stream_work.close,
            self.hook_work.close,
            tries.close,
        ]
        self._signs_in_evenly = False

    @cached_property
    def doors(self) -> list[Door[Any]]:
        return all_doors(self.settings)

    @cached_property
    def asgi(self) -> Asgi:
        """The ASGI callable, with its threads; made at the first call."""
        from thalweg.server.asgi import Asgi
        from thalweg.web.pages import Pages

        names = [door.name for door in self.doors]
        pages = Pages(self.services, names, self.store.problems, self._figures)
        access = self.services.access
        asgi = Asgi(self.doors, self.services, access, self.settings, pages.application(), self.metrics, self._ports())
        self._closers.append(asgi.close)
        self._closers.append(self.metrics.close)
        return asgi

    def _ports(self) -> dict[int, tuple[str, str]]:
        """Doors with a port of their own: their name and what their links begin with, by the port."""
        settings = self.settings
        return {settings.ldes_port: ("ldes", settings.ldes_base_url)} if settings.ldes_port else {}

    @cached_property
    def direct(self) -> Direct:
        """What answers by a shorter way where nothing has to be waited for."""
        from thalweg.server.direct import ShortWay

        return ShortWay(self.asgi, self.store.together)

    @cached_property
    def metrics(self) -> Metrics:
        """The figures of this worker, with those of the others."""
        from thalweg.server.metrics import Metrics

        operations = {door.name: tuple(door.operations) for door in self.doors}
        return Metrics(operations, GAUGES, Path(store_file(self.settings) + ".metrics"))

    def _figures(self) -> str:
        """What /metrics says."""
        figures = self.store.figures()
        return self.metrics.text(
            {
                f"thalweg_store_{name}": (kind, sentence, float(getattr(figures, attribute)))
                for name, attribute, kind, sentence in STORE_FIGURES
            }
        )

    def warm_up(self) -> None:
        """Load the doors and fill the encoders' tables, so that the first requests are answered as fast as later."""
        from thalweg.encode.table import warm_up

        _return_large_blocks()
        _ = self.asgi
        warm_up()
        self.stream_work.start()
        self.hook_work.start()
        if self.settings.ckan_load_uploads:
            self.job_runner.start()

    def maintain(self) -> None:
        """One round of the store's background work."""
        if not self._signs_in_evenly:
            # Takes a hashing's time, which no start should wait for.
            self._signs_in_evenly = True
            self.services.access.prepare()
        self.services.access.maintain()
        self.metrics.set("thalweg_writes_waiting", self.store.queued)
        self.store.maintain()
        self.services.features.maintain()

    def close(self) -> None:
        """Stop threads, finish queued writes, close the store."""
        for closer in self._closers:
            closer()
        self.services.access.maintain()
        self.store.close()


LARGE_BLOCK_BYTES: Final = 4 << 20
"""Blocks of memory from this size on are given back to the system as soon as they are free."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def _return_large_blocks() -> None:
    """Tell glibc what a large block is.

    Left to itself it takes the largest block ever freed, up to 32 MB, for an ordinary one, and keeps as much in the
    arena of each thread: some large bodies, refused ones too, left a worker 70 MB above its usual size for good (see
    mallopt(3)). Other libraries have no such function.
    """
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        set_option(_M_TRIM_THRESHOLD, 2 * LARGE_BLOCK_BYTES)


GAUGES: Final = ("thalweg_writes_waiting",)
"""Figures of each worker beside those of its requests."""
STORE_FIGURES: Final = (
    ("tracks", "tracks", "gauge", "Procedures at features of interest, each a series of rows."),
    ("rows", "rows", "gauge", "Rows of observations."),
    ("tail_rows", "tail_rows", "gauge", "Rows not yet merged into chunks."),
    ("procedures", "procedures", "gauge", "Procedures registered."),
    ("layers", "layers", "gauge", "Layers stored."),
    ("features", "features", "gauge", "Features of these layers."),
    ("size_bytes", "size_bytes", "gauge", "Length of the store's file."),
    ("log_bytes", "log_bytes", "gauge", "Length of the write-ahead log."),
    ("free_bytes", "free_bytes", "gauge", "Room left on the store's disk."),
    ("reserve", "reserve", "gauge", "1 while the room kept for deleting on a full disk is there."),
    ("reopened_total", "reopened", "counter", "Times that a writer came back after an I/O error."),
)
"""Name, attribute of StoreFigures, type and sentence."""
DOOR_NAMES: Final = ("sos", "ckan", "wfs", "features", "ldes")
"""First path parts of ``all_doors``, for those who need no more than that: importing a door takes half a second."""

DOOR_PATHS: Final = {"ckan": "api/3/action"}
"""Where doors answer that do not by their name."""


def all_doors(settings: Settings) -> list[Door[Any]]:
    """Every protocol that is served, in the order of the start page."""
    from thalweg.doors import ckan, features, ldes, sos, wfs

    makers = (sos.make_door, ckan.make_door, wfs.make_door, features.make_door, ldes.make_door)
    return [make_door(settings) for make_door in makers]


def load_command(settings: Settings, path: Path, table: Table) -> list[str]:
    """The command that loads a file into a resource's table."""
    program = [sys.executable, "-m", "thalweg", "load", "table"]
    return [*program, str(path), "--resource", table.uuid, "--store", settings.store, "--json"]


def open_store(url: str, *, create: bool = True, settings: Settings | None = None) -> Store:
    """The store at an address, made with its folder at need; see ``thalweg.store.open.open_store``.

    settings  limits of its writes, others than the store's own
    """
    from thalweg.store.open import open_store as opened

    try:
        if settings is None:
            return opened(url, create=create)
        return opened(
            url,
            create=create,
            lock_timeout_s=settings.store_lock_timeout_s,
            max_queue=settings.write_queue_length,
        )
    except OSError as error:
        # The folder cannot be made or written to.
        raise StoreUnavailable(f"The store {url} cannot be opened: {error.strerror}: {error.filename}.") from None


def open_existing(settings: Settings) -> Store:
    """The store of the settings, for commands that must not make one. NotFound if none is there."""
    return open_store(settings.store, create=False, settings=settings)


def check_copy(source: str) -> Iterator[Finding]:
    """What is wrong with a back-up; see ``thalweg.store.open.check_copy``."""
    from thalweg.store.open import check_copy as checked

    return checked(source)


def restore(source: str, settings: Settings, *, force: bool, accept_damage: bool = False) -> list[Finding]:
    """Put a back-up in the place of the settings' store; see ``thalweg.store.open.restore``."""
    from thalweg.store.open import restore as restored

    return restored(source, settings.store, overwrite=force, accept_damage=accept_damage)


def store_file(settings: Settings) -> str:
    """The path of the store's file."""
    return settings.store.removeprefix("sqlite:///")


def build(settings: Settings) -> Application:
    """Open the store and put services and doors over it. One per process; ``close`` it."""
    return Application(settings, open_store(settings.store, settings=settings))


def prepare(settings: Settings) -> str | None:
    """Before the first worker starts: create the store at need, its declared streams, and its first administrator.

    returns  that administrator's password, which is not stored and cannot be shown again; None if there are accounts
    """
    from thalweg.services.access import Access

    store = open_store(settings.store, settings=settings)
    try:
        declare_streams(store, settings)
        return Access(store, settings).ensure_administrator()
    finally:
        store.close()


def streams_of(store: Store, settings: Settings) -> Streams:
    """The use cases of event streams over a store, for commands."""
    from thalweg.services.services import Services

    return Services.over(store, settings).streams


def declare_streams(store: Store, settings: Settings) -> None:
    """Make the event streams of the setting ``event_streams`` that are not there.

    raises  InvalidParameter that names the file, for one that cannot be read or describes no stream
    """
    from thalweg.domain.access import Actor
    from thalweg.domain.catalogue import DEFAULT_WORKSPACE
    from thalweg.domain.errors import InvalidParameter, ThalwegError
    from thalweg.loading.members import media_type_of

    by = Actor("system:settings", door="command", operation="serve")
    for name in settings.event_streams:
        try:
            content = Path(name).read_bytes()
            streams = streams_of(store, settings)
            workspace_id = store.workspaces()[DEFAULT_WORKSPACE].id
            streams.declare(workspace_id, content, media_type_of(Path(name)), by=by)
        except OSError as error:
            raise InvalidParameter("event_streams", f"event_streams: {name}: {error.strerror}.") from None
        except ThalwegError as error:
            raise InvalidParameter("event_streams", f"event_streams: {name}: {error.message}") from error


def serve(settings: Settings, say: Callable[[str], None], *, also: Callable[[Settings], None] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; see ``thalweg.server.supervisor.serve``.

    say   takes each line for the operator: addresses, store, the first administrator's password
    also  called after these lines, with the settings as they came out (the port, if 0 was asked for)
    """
    from thalweg.server.supervisor import serve as supervise

    password: list[str] = []

    def before(settled: Settings) -> None:
        made = prepare(settled)
        if made is not None:
            password.append(made)
            # At once: a start that fails later must not lose it.
            say("The first administrator was made. Its password is shown only now:")
            say("  name      admin")
            say(f"  password  {made}")

    def announce(settled: Settings) -> None:
        say(f"Thalweg serves {settled.store} with {settled.workers} worker{'s' if settled.workers > 1 else ''}:")
        say(f"  {settled.base_url}/")
        for name in DOOR_NAMES:
            say(f"  {settled.base_url}/{DOOR_PATHS.get(name, name)}")
        if settled.ldes_port:
            say(f"  {settled.ldes_base_url}/  (event streams)")
        if not settled.public_url and settled.listens_on_all:
            say(f"Links in answers begin with {settled.base_url}; set public_url to the address clients use.")
        if also is not None:
            also(settled)

    return supervise(settings, build, prepare=before, announce=announce)
