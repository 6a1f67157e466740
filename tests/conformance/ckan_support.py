"""A site of the CKAN door in this process, asked as clients ask it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from thalweg import app
from thalweg.domain.access import Role, User
from thalweg.settings import Settings

BASE = "http://127.0.0.1:8080"


class Site:
    """``act`` posts JSON as the administrator and gives the result, or with ``status`` the error."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        chosen = Settings(store=f"sqlite:///{folder / 'ckan.sqlite'}", access_log=False, **settings)
        self.application = app.build(chosen)
        self.store = self.application.store
        self.store.put_user(User("root", Role.ADMIN, "$argon2id$none", 1)).result(30)
        self.token = self.application.services.access.create_token("root", "")
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(self.application.asgi), base_url=BASE)

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.application.close()

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **options))

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.send("GET", path, params=query or None)

    def act(self, action: str, status: int = 200, *, token: str | None = None, **parameters: Any) -> Any:
        chosen = self.token if token is None else token
        headers = {"Authorization": chosen} if chosen else {}
        answer = self.send("POST", f"/api/action/{action}", json=parameters, headers=headers)
        assert answer.status_code == status, answer.text
        body = answer.json()
        assert body["help"] == f"{BASE}/api/3/action/help_show?name={action}"
        assert body["success"] is (status == 200)
        return body["result"] if status == 200 else body["error"]

    def error(self, action: str, **parameters: Any) -> Any:
        """What a refused call says, its type left out, which is that of a parameter at fault."""
        found = self.act(action, 409, **parameters)
        assert found.pop("__type") == "Validation Error"
        return found

    def table(self, fields: list[dict[str, Any]] | None = None, **parameters: Any) -> str:
        """A new table's id."""
        name = f"package-{len(self.store.packages())}"
        self.act("package_create", name=name)
        given = {} if fields is None else {"fields": fields}
        return str(self.act("datastore_create", resource={"package_id": name}, **given, **parameters)["resource_id"])

    def search(self, table: str, **parameters: Any) -> Any:
        return self.act("datastore_search", token="", resource_id=table, **parameters)

    def rows(self, table: str, **parameters: Any) -> list[list[Any]]:
        found: list[list[Any]] = self.search(table, records_format="lists", **parameters)["records"]
        return found
