"""One session at work in one store, so that a scenario reads as a story about A and B."""

from __future__ import annotations

from dataclasses import dataclass, replace

from milepost_server.model.requests.base import Attempt
from milepost_server.replica.submitter import Caller
from tests.contracts.state_handle_store.frontends.frontend import Entry, Frontend, Inventory, Removal

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Actor:
    """A session (``caller``) that comes in by ``frontend``."""

    frontend: Frontend
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
        return await self.frontend.add(self.caller, self.store, name, state)

    async def replace(self, name: str, version: str, state: bytes) -> Entry:
        """replace."""
        return await self.frontend.replace(self.caller, self.store, name, version, state)

    async def exists(self, name: str) -> str | None:
        """exists."""
        return await self.frontend.exists(self.store, name)

    async def lock(self, name: str) -> Entry:
        """getAndLock, the record."""
        return await self.frontend.lock(self.caller, self.store, name)

    async def read(self, name: str) -> bytes:
        """getAndLock, the bytes."""
        return await self.frontend.read(self.store, name)

    async def lock_all(self) -> Inventory:
        """getAllAndLock."""
        return await self.frontend.lock_all(self.caller, self.store)

    async def listing(self) -> list[Entry]:
        """getAllHandles."""
        entries, token = await self.frontend.page(self.store, None, _PAGE)
        assert token is None
        return entries

    async def names(self) -> list[str]:
        """The names in getAllHandles."""
        return [entry.name for entry in await self.listing()]

    async def remove(self, name: str) -> Removal:
        """releaseAndTryRemove."""
        return await self.frontend.remove(self.caller, self.store, name)

    async def clear(self) -> int:
        """clearEntries."""
        return await self.frontend.clear(self.caller, self.store)

    async def release(self, name: str) -> None:
        """release."""
        await self.frontend.release(self.caller, self.store, name)

    async def release_all(self) -> None:
        """releaseAll."""
        await self.frontend.release_all(self.caller, self.store)

    async def locks(self) -> list[str]:
        """The names in this store that the session holds."""
        return [name for store, name in await self.frontend.locks_of(self.session) if store == self.store]

    async def campaign(self) -> int:
        """The epoch of the store."""
        return await self.frontend.campaign(self.caller, self.store)

    async def end(self) -> None:
        """End the session."""
        await self.frontend.end_session(self.session)
