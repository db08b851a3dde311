"""A way into the service: the ten operations of a state handle store, sessions and epochs, and what they answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from milepost_server.replica.submitter import Caller


@dataclass(frozen=True, slots=True)
class Entry:
    """The record of a handle; ``replayed`` if it was the first answer to this key, given again."""

    name: str
    version: str
    size: int
    sha256: str
    locks: tuple[str, ...]
    removing: bool
    replayed: bool = False

    @classmethod
    def from_body(cls, body: Mapping[str, Any], *, replayed: bool = False) -> Entry:
        """From the record as the service gives it."""
        return cls(
            body["name"],
            body["version"],
            body["size"],
            body["sha256"],
            tuple(body["locks"]),
            body["removing"],
            replayed,
        )


@dataclass(frozen=True, slots=True)
class Inventory:
    """What getAllAndLock answers: the entries, and why others cannot be read, by name."""

    entries: list[Entry]
    corrupt: dict[str, str]

    @property
    def names(self) -> list[str]:
        """In the order of the answer."""
        return [entry.name for entry in self.entries]

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Inventory:
        """From the answer as the service gives it."""
        corrupt = {entry["name"]: entry["reason"] for entry in body["corrupt"]}
        return cls([Entry.from_body(record) for record in body["handles"]], corrupt)


@dataclass(frozen=True, slots=True)
class Removal:
    """What releaseAndTryRemove answers, and the sessions that hold the entry if it was not removed."""

    removed: bool
    held_by: tuple[str, ...] = ()

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Removal:
        """From the answer as the service gives it."""
        return cls(body["removed"], tuple(body.get("locks", ())))


class Frontend(ABC):
    """Everything raises `milepost.errors.Problem`, whichever way in it is."""

    @abstractmethod
    async def open_session(self, session: str, ttl: float) -> None: ...

    @abstractmethod
    async def end_session(self, session: str) -> None: ...

    @abstractmethod
    async def locks_of(self, session: str) -> list[tuple[str, str]]:
        """Store and name of every handle that the session holds."""

    @abstractmethod
    async def campaign(self, caller: Caller, store: str) -> int:
        """The epoch, without waiting for it."""

    @abstractmethod
    async def add(self, caller: Caller, store: str, name: str, state: bytes) -> Entry:
        """addAndLock."""

    @abstractmethod
    async def replace(self, caller: Caller, store: str, name: str, version: str, state: bytes) -> Entry:
        """replace."""

    @abstractmethod
    async def exists(self, store: str, name: str) -> str | None:
        """exists: the version, None for an absent handle."""

    @abstractmethod
    async def lock(self, caller: Caller, store: str, name: str) -> Entry:
        """getAndLock, the record."""

    @abstractmethod
    async def read(self, store: str, name: str) -> bytes:
        """getAndLock, the state's bytes; takes no lock."""

    @abstractmethod
    async def lock_all(self, caller: Caller, store: str) -> Inventory:
        """getAllAndLock."""

    @abstractmethod
    async def page(self, store: str, token: str | None, limit: int) -> tuple[list[Entry], str | None]:
        """getAllHandles: a page, and the token of the next."""

    @abstractmethod
    async def remove(self, caller: Caller, store: str, name: str) -> Removal:
        """releaseAndTryRemove."""

    @abstractmethod
    async def clear(self, caller: Caller, store: str) -> int:
        """clearEntries: how many are gone."""

    @abstractmethod
    async def release(self, caller: Caller, store: str, name: str) -> None:
        """release."""

    @abstractmethod
    async def release_all(self, caller: Caller, store: str) -> None:
        """releaseAll."""

    async def close(self) -> None:
        """Let go of connections."""
        return
