"""What a store offers to be damaged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.contracts.places import Services
from tests.corrupt.history import History
from tests.support.servers.replicas import Backends


class Damage(Enum):
    """What is done to a thing."""

    BIT = "one bit flipped"
    BYTE = "one byte changed"
    SHORT = "cut short"
    EMPTY = "emptied"
    OLDER = "an older copy"
    GONE = "deleted"


ALL = frozenset(Damage)

EVERYTHING = "everything but the blobs"
"""The kind of thing that is all that a place has of a service, which somebody may delete while nobody leads."""


@dataclass(frozen=True, slots=True)
class Thing:
    """One stored thing as it lies there now. Both functions go behind the service's back.

    ``read``: its bytes; None where there is none. ``write``: put these in its place, also where there is none now; None
    deletes it. ``span``: the places at which bits are flipped and bytes changed (default: all of them).
    """

    read: Callable[[], Awaitable[bytes | None]]
    write: Callable[[bytes | None], Awaitable[None]]
    span: Callable[[bytes], Sequence[int]] | None = None


def everything(delete: Callable[[], None]) -> Thing:
    """`EVERYTHING`, which can be deleted and nothing else."""

    async def read() -> bytes | None:
        return b"all of it"

    async def write(content: bytes | None) -> None:
        assert content is None
        await asyncio.to_thread(delete)

    return Thing(read, write)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing: a row of the table.

    ``damages``: those that can be done to it; ``under_leader``: while a leader runs, if they are others. ``harmless``
    says why nothing may be lost whatever is done to it, if that is so. ``weight``: how many places of the thing a full
    run damages, where there are several. ``history``: what is written before.
    """

    name: str
    damages: frozenset[Damage] = ALL
    harmless: str = ""
    weight: int = 1
    under_leader: frozenset[Damage] | None = None
    history: Callable[[], History] = History

    def can_be(self, damage: Damage, leader: bool) -> bool:
        """Whether that can be done to it, with a leader or without."""
        return damage in (self.under_leader if leader and self.under_leader is not None else self.damages)


class Scene:
    """One fresh place for one case; a store derives its own from it.

    ``accept_loss``: the losses that an owner accepts; `build` hands them to the pointer store that it makes.
    """

    accept_loss: frozenset[str] = frozenset()

    def build(self, advertise: str) -> Backends:
        """Unopened backends of one more replica on the place, as `tests.support.servers.replicas.Build` says."""
        raise NotImplementedError

    async def thing(self, kind: str, chance: random.Random) -> Thing:
        """The thing, or one of them, by chance: a fresh ``chance`` of one seed finds the same one.

        Asked again after each change; an older copy that was read from the one is written to the other.
        """
        raise NotImplementedError

    async def leader_ends(self, kind: str, killed: bool) -> None:
        """The leader, still alive, is about to end in good order; ``kind`` will be damaged then, or was damaged before.

        Where a killed one leaves something else behind (a log that was not yet taken in), that can be taken aside now:
        if it is to look ``killed``, or if ``kind`` is there only after a kill.
        """

    async def leader_ended(self, kind: str) -> None:
        """It has ended: what was taken aside can be put back, so that the place looks as if it had been killed."""


Open = Callable[[Path, Services], AbstractAsyncContextManager[Scene]]


@dataclass(frozen=True, slots=True)
class Store:
    """One store and its kinds of things. ``open`` makes a fresh scene in an empty directory."""

    name: str
    kinds: tuple[Kind, ...]
    open: Open

    @property
    def by_name(self) -> Mapping[str, Kind]:
        """Its kinds by their names."""
        return {kind.name: kind for kind in self.kinds}


def damaged(damage: Damage, content: bytes, older: bytes | None, thing: Thing, chance: random.Random) -> bytes | None:
    """What lies there afterwards; None: nothing. Never the same as before, if that is possible at all."""
    match damage:
        case Damage.GONE:
            return None
        case Damage.EMPTY:
            return b""
        case Damage.OLDER:
            return older
        case Damage.SHORT:
            return content[: chance.randrange(len(content))] if content else None
    where = thing.span(content) if thing.span else range(len(content))
    if not where:
        return None
    changed, at = bytearray(content), chance.choice(where)
    changed[at] ^= 1 << chance.randrange(8) if damage is Damage.BIT else chance.randrange(1, 256)
    return bytes(changed)
