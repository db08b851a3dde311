"""The way in by the use cases, without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from milepost.errors import NotExist
from service.blobs.intake import Incoming
from service.leader import Replica
from service.operations import epochs, handles, reading, sessions, states, stores
from service.operations.calls import Caller
from service.rules.records import Handle
from tests.contracts.state_handle_store.door import Door, Entry, Inventory, Removal
from tests.support.answers import plain


class UseCaseDoor(Door):
    """``replica`` tells which one it is now: a restart makes a new one."""

    def __init__(self, replica: Callable[[], Replica]) -> None:
        self._replica = replica

    async def open_session(self, session: str, ttl: float) -> None:
        await sessions.open_session(self._replica(), Caller(session), ttl, "")

    async def end_session(self, session: str) -> None:
        await sessions.end_session(self._replica(), Caller(session))

    async def locks_of(self, session: str) -> list[tuple[str, str]]:
        reply = await sessions.get_session(self._replica(), session)
        return [(lock["store"], lock["name"]) for lock in plain(reply.answer.body)["locks"]]

    async def campaign(self, caller: Caller, store: str) -> int:
        reply = await epochs.campaign(self._replica(), caller, store, 0.0)
        epoch: int = reply.answer.body["epoch"]
        return epoch

    async def add(self, caller: Caller, store: str, name: str, state: bytes) -> Entry:
        reply = await states.add(self._replica(), caller, store, name, _incoming(state), {})
        return Entry.told(reply.answer.body, replayed=reply.answer.replayed)

    async def replace(self, caller: Caller, store: str, name: str, version: str, state: bytes) -> Entry:
        reply = await states.replace(self._replica(), caller, store, name, version, _incoming(state), None)
        return Entry.told(reply.answer.body, replayed=reply.answer.replayed)

    async def exists(self, store: str, name: str) -> str | None:
        try:
            return handles.get(self._replica(), store, name).answer.version
        except NotExist:
            return None

    async def lock(self, caller: Caller, store: str, name: str) -> Entry:
        return Entry.told((await handles.lock(self._replica(), caller, store, name)).answer.body)

    async def read(self, store: str, name: str) -> bytes:
        delivery = await reading.read_state(self._replica(), store, name, None, _whole)
        return b"".join([chunk async for chunk in delivery.chunks])

    async def lock_all(self, caller: Caller, store: str) -> Inventory:
        return Inventory.told(plain((await stores.lock_all(self._replica(), caller, store)).answer.body))

    async def page(self, store: str, token: str | None, limit: int) -> tuple[list[Entry], str | None]:
        page = await handles.list_page(self._replica(), store, token or "", limit)
        return [Entry.told(body) for body in page.handles], page.next

    async def remove(self, caller: Caller, store: str, name: str) -> Removal:
        return Removal.told((await handles.remove(self._replica(), caller, store, name, None)).answer.body)

    async def clear(self, caller: Caller, store: str) -> int:
        cleared: int = (await stores.clear(self._replica(), caller, store)).answer.body["cleared"]
        return cleared

    async def release(self, caller: Caller, store: str, name: str) -> None:
        await handles.release(self._replica(), caller, store, name)

    async def release_all(self, caller: Caller, store: str) -> None:
        await stores.release_all(self._replica(), caller, store)


def _incoming(state: bytes) -> Incoming:
    async def chunks() -> AsyncIterator[bytes]:
        yield state

    return Incoming(chunks())


def _whole(handle: Handle) -> reading.Span:
    return reading.Span(0, handle.size)
