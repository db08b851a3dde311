"""The way in by the SDK: a client that is told of every replica in random order, and finds the leader by itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from milepost import Client, Handle, Session, StateHandleStore
from milepost.wire import MAX_PAGE
from milepost_server.replica.submitter import Caller
from tests.contracts.state_handle_store.frontends.frontend import Entry, Frontend, Inventory, Removal
from tests.contracts.state_handle_store.frontends.rest_frontend import RestFrontend

T = TypeVar("T")


class SdkDoor(Frontend):
    """Calls block in threads. What the SDK does by itself, keys and pages, comes in by ``rest``."""

    def __init__(self, urls: Sequence[str], rest: RestFrontend) -> None:
        self._client = Client(random.sample(urls, len(urls)), timeout=60.0)
        self._sessions: dict[str, Session] = {}
        self._rest = rest

    async def close(self) -> None:
        await asyncio.to_thread(self._client.close)
        await self._rest.close()

    async def open_session(self, session: str, ttl: float) -> None:
        opened = await asyncio.to_thread(self._client.session, "contract", ttl, session)
        self._sessions[session] = opened

    async def end_session(self, session: str) -> None:
        await asyncio.to_thread(self._sessions.pop(session).close)

    async def locks_of(self, session: str) -> list[tuple[str, str]]:
        info = await asyncio.to_thread(self._client.session_info, session)
        return [(store, name) for store, _, name in (lock.partition("/") for lock in info.locks)]

    async def campaign(self, caller: Caller, store: str) -> int:
        epoch = await self._call(caller, store, lambda acting: acting.campaign(0))
        return epoch.epoch

    async def add(self, caller: Caller, store: str, name: str, state: bytes) -> Entry:
        if caller.attempt.key is not None:
            return await self._rest.add(caller, store, name, state)
        return _entry(await self._call(caller, store, lambda acting: acting.add_and_lock(name, state)))

    async def replace(self, caller: Caller, store: str, name: str, version: str, state: bytes) -> Entry:
        if caller.attempt.key is not None:
            return await self._rest.replace(caller, store, name, version, state)
        return _entry(await self._call(caller, store, lambda acting: acting.replace(name, version, state)))

    async def exists(self, store: str, name: str) -> str | None:
        return await asyncio.to_thread(self._client.store(store).exists, name)

    async def lock(self, caller: Caller, store: str, name: str) -> Entry:
        return _entry(await self._call(caller, store, lambda acting: acting.get_and_lock(name)))

    async def read(self, store: str, name: str) -> bytes:
        return await asyncio.to_thread(self._client.store(store).read, name)

    async def lock_all(self, caller: Caller, store: str) -> Inventory:
        found = await self._call(caller, store, lambda acting: acting.get_all_and_lock())
        corrupt = {handle.name: handle.reason for handle in found.corrupt}
        return Inventory([_entry(handle) for handle in found.handles], corrupt)

    async def page(self, store: str, token: str | None, limit: int) -> tuple[list[Entry], str | None]:
        if token is not None or limit < MAX_PAGE:
            return await self._rest.page(store, token, limit)
        listed = await asyncio.to_thread(lambda: list(self._client.store(store).get_all_handles()))
        return [_entry(handle) for handle in listed], None

    async def remove(self, caller: Caller, store: str, name: str) -> Removal:
        if caller.attempt.key is not None:
            return await self._rest.remove(caller, store, name)
        removal = await self._call(caller, store, lambda acting: acting.release_and_try_remove(name))
        return Removal(removal.removed, tuple(removal.locks))

    async def clear(self, caller: Caller, store: str) -> int:
        return await self._call(caller, store, lambda acting: acting.clear_entries())

    async def release(self, caller: Caller, store: str, name: str) -> None:
        await self._call(caller, store, lambda acting: acting.release(name))

    async def release_all(self, caller: Caller, store: str) -> None:
        await self._call(caller, store, lambda acting: acting.release_all())

    async def _call(self, caller: Caller, store: str, act: Callable[[StateHandleStore], T]) -> T:
        acting = self._sessions[caller.session].store(store)
        if caller.epoch is not None:
            acting = acting.under(caller.epoch)
        return await asyncio.to_thread(act, acting)


def _entry(handle: Handle) -> Entry:
    return Entry(handle.name, handle.version, handle.size, handle.sha256, tuple(handle.locks), handle.removing)
