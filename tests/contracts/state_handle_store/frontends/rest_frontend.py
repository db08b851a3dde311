"""The way in by REST: raw requests as docs/wire.md has them, so that the service is not held to what the SDK makes of
it.
"""

from __future__ import annotations

from typing import Any

import httpx

from milepost.errors import problem_from
from milepost.wire import API, PROBLEM_MEDIA_TYPE, Header, quote_version, unquote_version
from milepost_server.replica.submitter import Caller
from tests.contracts.state_handle_store.frontends.frontend import Entry, Frontend, Inventory, Removal

_SECONDS = 60.0


class RestFrontend(Frontend):
    """Speaks to the replica at ``url``, and goes where that one sends it."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=url, timeout=_SECONDS, follow_redirects=True, trust_env=False, verify=False
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def open_session(self, session: str, ttl: float) -> None:
        await self._ask("POST", f"{API}/sessions", json={"session": session, "ttl": ttl})

    async def end_session(self, session: str) -> None:
        await self._ask("DELETE", f"{API}/sessions/{session}")

    async def locks_of(self, session: str) -> list[tuple[str, str]]:
        body = (await self._ask("GET", f"{API}/sessions/{session}")).json()
        return [(lock["store"], lock["name"]) for lock in body["locks"]]

    async def campaign(self, caller: Caller, store: str) -> int:
        answer = await self._ask("POST", f"{_store(store)}/epoch", caller, json={"wait": 0})
        epoch: int = answer.json()["epoch"]
        return epoch

    async def add(self, caller: Caller, store: str, name: str, state: bytes) -> Entry:
        return _entry(await self._ask("POST", _handle(store, name), caller, content=state))

    async def replace(self, caller: Caller, store: str, name: str, version: str, state: bytes) -> Entry:
        match = {Header.IF_MATCH: quote_version(version)}
        return _entry(await self._ask("PUT", _handle(store, name), caller, headers=match, content=state))

    async def exists(self, store: str, name: str) -> str | None:
        answer = await self._http.head(_handle(store, name))
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return unquote_version(answer.headers[Header.ETAG])

    async def lock(self, caller: Caller, store: str, name: str) -> Entry:
        return _entry(await self._ask("POST", f"{_handle(store, name)}/lock", caller))

    async def read(self, store: str, name: str) -> bytes:
        return (await self._ask("GET", f"{_handle(store, name)}/state")).content

    async def lock_all(self, caller: Caller, store: str) -> Inventory:
        return Inventory.from_body((await self._ask("POST", f"{_store(store)}/locks", caller)).json())

    async def page(self, store: str, token: str | None, limit: int) -> tuple[list[Entry], str | None]:
        query: dict[str, Any] = {"limit": limit} if token is None else {"limit": limit, "token": token}
        body = (await self._ask("GET", f"{_store(store)}/handles", params=query)).json()
        return [Entry.from_body(record) for record in body["handles"]], body["next"]

    async def remove(self, caller: Caller, store: str, name: str) -> Removal:
        return Removal.from_body((await self._ask("DELETE", _handle(store, name), caller)).json())

    async def clear(self, caller: Caller, store: str) -> int:
        cleared: int = (await self._ask("DELETE", f"{_store(store)}/handles", caller)).json()["cleared"]
        return cleared

    async def release(self, caller: Caller, store: str, name: str) -> None:
        await self._ask("DELETE", f"{_handle(store, name)}/lock", caller)

    async def release_all(self, caller: Caller, store: str) -> None:
        await self._ask("DELETE", f"{_store(store)}/locks", caller)

    async def _ask(
        self,
        method: str,
        path: str,
        caller: Caller | None = None,
        headers: dict[str, str] | None = None,
        **rest: Any,
    ) -> httpx.Response:
        sent = {**(_headers(caller) if caller else {}), **(headers or {})}
        answer = await self._http.request(method, path, headers=sent, **rest)
        if answer.headers.get("content-type") == PROBLEM_MEDIA_TYPE:
            raise problem_from(answer.status_code, answer.json())
        assert answer.is_success, answer
        return answer


def _headers(caller: Caller) -> dict[str, str]:
    headers = {Header.SESSION: caller.session}
    if caller.epoch is not None:
        headers[Header.EPOCH] = str(caller.epoch)
    if caller.attempt.key is not None:
        headers[Header.IDEMPOTENCY_KEY] = caller.attempt.key
        headers[Header.ATTEMPT] = str(caller.attempt.number)
    return headers


def _store(store: str) -> str:
    return f"{API}/stores/{store}"


def _handle(store: str, name: str) -> str:
    return f"{_store(store)}/handles/{name}"


def _entry(answer: httpx.Response) -> Entry:
    entry = Entry.from_body(answer.json(), replayed=answer.headers.get(Header.REPLAYED) == "true")
    assert unquote_version(answer.headers[Header.ETAG]) == entry.version
    return entry
