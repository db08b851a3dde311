"""The way in by the use cases, without HTTP."""

from __future__ import annotations

from collections.abc import Callable

from milepost.errors import NotExist
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.intake import Incoming
from milepost_server.model.records import Handle
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Clear, LockHandle, ReleaseAll, ReleaseHandle
from milepost_server.model.requests.sessions import EndSession
from milepost_server.operations import states
from milepost_server.operations.operations import operations_of
from milepost_server.replica.replica import Replica
from milepost_server.replica.submitter import Caller
from tests.contracts.state_handle_store.frontends.frontend import Entry, Frontend, Inventory, Removal
from tests.support.answers import plain


class UseCaseFrontend(Frontend):
    """``replica`` tells which one it is now: a restart makes a new one."""

    def __init__(self, replica: Callable[[], Replica]) -> None:
        self._replica = replica

    async def open_session(self, session: str, ttl: float) -> None:
        await operations_of(self._replica()).sessions.open(Caller(Attempt(session)), ttl, "")

    async def end_session(self, session: str) -> None:
        await operations_of(self._replica()).perform(EndSession(Attempt(session)))

    async def locks_of(self, session: str) -> list[tuple[str, str]]:
        reply = await operations_of(self._replica()).sessions.get(session)
        return [(lock["store"], lock["name"]) for lock in plain(reply.answer.body)["locks"]]

    async def campaign(self, caller: Caller, store: str) -> int:
        reply = await operations_of(self._replica()).epochs.campaign(caller, store, 0.0)
        epoch: int = reply.answer.body["epoch"]
        return epoch

    async def add(self, caller: Caller, store: str, name: str, state: bytes) -> Entry:
        reply = await operations_of(self._replica()).states.add(caller, store, name, _incoming(state), {})
        return Entry.from_body(reply.answer.body, replayed=reply.answer.replayed)

    async def replace(self, caller: Caller, store: str, name: str, version: str, state: bytes) -> Entry:
        reply = await operations_of(self._replica()).states.replace(
            caller, store, name, version, _incoming(state), None
        )
        return Entry.from_body(reply.answer.body, replayed=reply.answer.replayed)

    async def exists(self, store: str, name: str) -> str | None:
        try:
            return operations_of(self._replica()).handles.get(store, name).answer.version
        except NotExist:
            return None

    async def lock(self, caller: Caller, store: str, name: str) -> Entry:
        return Entry.from_body(
            (await operations_of(self._replica()).perform(LockHandle(caller.attempt, store, name))).answer.body
        )

    async def read(self, store: str, name: str) -> bytes:
        delivery = await operations_of(self._replica()).reader.read(store, name, None, _whole)
        return b"".join([chunk async for chunk in delivery.chunks])

    async def lock_all(self, caller: Caller, store: str) -> Inventory:
        return Inventory.from_body(
            plain((await operations_of(self._replica()).stores.lock_all(caller, store)).answer.body)
        )

    async def page(self, store: str, token: str | None, limit: int) -> tuple[list[Entry], str | None]:
        page = await operations_of(self._replica()).handles.list_page(store, token or "", limit)
        return [Entry.from_body(body) for body in page.handles], page.next

    async def remove(self, caller: Caller, store: str, name: str) -> Removal:
        return Removal.from_body(
            (await operations_of(self._replica()).handles.remove(caller, store, name, None)).answer.body
        )

    async def clear(self, caller: Caller, store: str) -> int:
        request = Clear(caller.attempt, store, caller.epoch)
        cleared: int = (await operations_of(self._replica()).perform(request)).answer.body["cleared"]
        return cleared

    async def release(self, caller: Caller, store: str, name: str) -> None:
        await operations_of(self._replica()).perform(ReleaseHandle(caller.attempt, store, name))

    async def release_all(self, caller: Caller, store: str) -> None:
        await operations_of(self._replica()).perform(ReleaseAll(caller.attempt, store))


def _incoming(state: bytes) -> Incoming:
    return Incoming(stream_of(state))


def _whole(handle: Handle) -> states.Span:
    return states.Span(0, handle.size)
