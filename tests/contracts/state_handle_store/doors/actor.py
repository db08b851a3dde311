"""One session at work in one store, so that a scenario reads as a story about A and B."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.replica.submitter import Caller
from service.rules.requests import Attempt
from tests.contracts.state_handle_store.doors.door import Door, Entry, Inventory, Removal

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Actor:
    """A session (``caller``) that comes in by ``door``."""

    door: Door
    store: str
    caller: Caller

    @property
    def session(self) -> str:
        """The id of its session."""
        return self.caller.session

    def under(self, *, epoch: int | None = None, key: str | None = None, attempt: int = 1) -> Actor:
        """The same session, with these on its calls."""
        return replace(self, caller=Caller(Attempt(self.session, key, attempt), epoch))

    async def add(self, name: str, state: bytes) -> Entry:
        """addAndLock."""
        return await self.door.add(self.caller, self.store, name, state)

    async def replace(self, name: str, version: str, state: bytes) -> Entry:
        """replace."""
        return await self.door.replace(self.caller, self.store, name, version, state)

    async def exists(self, name: str) -> str | None:
        """exists."""
        return await self.door.exists(self.store, name)

    async def lock(self, name: str) -> Entry:
        """getAndLock, the record."""
        return await self.door.lock(self.caller, self.store, name)

    async def read(self, name: str) -> bytes:
        """getAndLock, the bytes."""
        return await self.door.read(self.store, name)

    async def lock_all(self) -> Inventory:
        """getAllAndLock."""
        return await self.door.lock_all(self.caller, self.store)

    async def listing(self) -> list[Entry]:
        """getAllHandles."""
        entries, token = await self.door.page(self.store, None, _PAGE)
        assert token is None
        return entries

    async def names(self) -> list[str]:
        """The names in getAllHandles."""
        return [entry.name for entry in await self.listing()]

    async def remove(self, name: str) -> Removal:
        """releaseAndTryRemove."""
        return await self.door.remove(self.caller, self.store, name)

    async def clear(self) -> int:
        """clearEntries."""
        return await self.door.clear(self.caller, self.store)

    async def release(self, name: str) -> None:
        """release."""
        await self.door.release(self.caller, self.store, name)

    async def release_all(self) -> None:
        """releaseAll."""
        await self.door.release_all(self.caller, self.store)

    async def locks(self) -> list[str]:
        """The names in this store that the session holds."""
        return [name for store, name in await self.door.locks_of(self.session) if store == self.store]

    async def campaign(self) -> int:
        """The epoch of the store."""
        return await self.door.campaign(self.caller, self.store)

    async def end(self) -> None:
        """End the session."""
        await self.door.end_session(self.session)
