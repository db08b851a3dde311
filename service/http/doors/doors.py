"""Put the parts of the data doors together."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container
from dataclasses import dataclass

from service.blobs.intake import Incoming
from service.blobs.shared_key import SharedKey
from service.http.doors.door import Door, Taken
from service.http.doors.permits import (
    LIFE_SECONDS,
    Kind,
    PutPermit,
    ReadPermit,
    check_not_late,
    check_time,
    opened,
    sealed,
)
from service.http.doors.registry import Doors
from service.journal import Journal
from service.operations.trees import At
from service.rules.requests import NOW, Begun
from service.rules.stored.trees import Entry

_MOST_TRIES = 10**9


@dataclass(frozen=True, slots=True)
class DataDoors:
    """This replica's own door, the doors that it knows of while it leads, and the permits for all of them.

    ``wall`` gives seconds since 1970.
    """

    own: Door
    known: Doors
    key: SharedKey
    journal: Journal
    wall: Callable[[], float]

    async def to_put(
        self, at: At, epoch: int | None, *, overwrite: bool, excluded: Container[str], begun: Begun = NOW
    ) -> tuple[str, str]:
        """Return the address of a door, and the permit for one put, which ``begun`` has to allow still at its end."""
        permit = self._to_put(at, epoch, overwrite, secrets.token_hex(16), begun)
        return self.known.next(excluded), sealed(permit, await self.key.get())

    async def take(
        self, at: At, epoch: int | None, incoming: Incoming, *, overwrite: bool, key: str | None, tries: int
    ) -> Taken:
        """Take the bytes of a file as a door, without a redirect; ``key`` and ``tries`` are the client's own.

        So a body that comes while another replica begins to lead is published there. Raises problems.
        """
        permit = self._to_put(at, epoch, overwrite, key or secrets.token_hex(16))
        return await self.own.take(permit, sealed(permit, await self.key.get()), incoming, min(tries, _MOST_TRIES))

    def _to_put(self, at: At, epoch: int | None, overwrite: bool, key: str, begun: Begun = NOW) -> PutPermit:
        journal = self.journal
        deployment, term = journal.deployment, journal.term
        return PutPermit(at.store, at.path, epoch, overwrite, key, deployment, term, self._until(), begun)

    async def to_read(self, at: At, entry: Entry, excluded: Container[str]) -> tuple[str, str]:
        """Return the address of a door that has the bytes of a file, and the permit to read them."""
        blob = entry.blob if entry.has_own_blob else ""
        permit = ReadPermit(at.store, at.path, blob, entry.size, entry.sha256, self._until())
        door = self.known.next(excluded) if blob else self.known.own
        return door, sealed(permit, await self.key.get())

    async def permit(self, text: str, kind: type[Kind], at: At) -> Kind:
        """Return the permit that an address holds. Raises ``forbidden`` problems for one that is not good here."""
        permit = opened(text, await self.key.get(), kind, at)
        check_time(permit, self.wall())
        return permit

    async def to_publish(self, text: str, at: At) -> PutPermit:
        """Return the permit of a put whose bytes have come. Raises as `permit` does, for one that is too old."""
        permit = opened(text, await self.key.get(), PutPermit, at)
        check_not_late(permit, self.wall())
        return permit

    def _until(self) -> int:
        return int(self.wall()) + LIFE_SECONDS
