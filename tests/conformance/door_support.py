"""What tests share that ask a door without a server: a store of its own, its answers read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import orjson

from thalweg.domain.store import Store
from thalweg.doors.door import Door
from thalweg.doors.http import Deferred, Kept, Request, Response
from thalweg.services.services import Services
from thalweg.settings import Settings
from thalweg.store.open import open_store


class Validator(Protocol):
    """The fixture ``schemas``."""

    @property
    def available(self) -> bool: ...

    def validate(
        self,
        document: bytes,
        *,
        family: str | None = None,
        app_schemas: Sequence[str | Path] = (),
        strict_features: bool = False,
    ) -> list[str]: ...


@dataclass
class Answer:
    """A response, its body read."""

    status: int
    content_type: str
    body: bytes
    etag: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    kept: Kept | None = None

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    def header(self, name: str) -> str:
        """Empty if there is none."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


AnswerType = TypeVar("AnswerType", bound=Answer)


class OwnDoor(Generic[AnswerType]):
    """A door over a store of its own, in a file of a folder."""

    hides_failures = False
    """Whether what nobody expected is answered with status 500, as by a server, or raised."""

    def __init__(
        self, folder: Path, make_door: Callable[[Settings], Door], answer: type[AnswerType], settings: Settings
    ) -> None:
        self.address = f"sqlite:///{folder / 'door.sqlite'}"
        self.store: Store = open_store(self.address)
        self.settings = settings
        self.services = Services.over(self.store, settings)
        self.door = make_door(settings)
        self._answer = answer

    def close(self) -> None:
        self.store.close()

    def handle(self, request: Request) -> AnswerType:
        """What the door answers, errors in its own tongue."""
        response: Response | Deferred
        try:
            response = self.door.handle(request, self.services)
            if isinstance(response, Deferred):
                response = response.finish(response.future.result(30))
            body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        except Exception as error:
            response = self.door.render_error(request, error)
            assert isinstance(response.body, bytes)
            body = response.body
            if response.status == 500 and not self.hides_failures:
                raise
        return self._answer(
            response.status, response.content_type, body, response.etag, response.headers, response.kept
        )
