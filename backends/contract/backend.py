"""How a technology joins in: what stands behind the scheme of an address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from backends.contract.blobs import BlobStore
from backends.contract.elections import Election
from backends.contract.pointers import PointerStore


@dataclass(frozen=True, slots=True)
class PointersSettings:
    """What a replica tells its pointer store and its election.

    ``advertise`` is the URL that other replicas and clients reach it by. ``accept_loss`` are the damages whose loss the
    owner has accepted, see `JournalDamaged`.
    """

    advertise: str
    accept_loss: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BlobsSettings:
    """What a replica tells its blob store: one exchange with a server may take ``exchange_seconds``."""

    exchange_seconds: float


@dataclass(frozen=True, slots=True)
class Backend:
    """What stands behind a scheme of addresses, as ``zookeeper`` in ``zookeeper://h1:2181/path``.

    ``example`` is such an address, for errors. ``pointers`` makes a pointer store of an address, and the election
    beside it; ``blobs`` makes a blob store. Each is None where there is no such thing. Neither connects to anything,
    and both raise `Misconfigured` for an address that means nothing. They import what they need when they are called,
    so that nobody pays for the libraries of a technology that is not used.
    """

    example: str
    pointers: Callable[[str, PointersSettings], tuple[PointerStore, Election]] | None = None
    blobs: Callable[[str, BlobsSettings], BlobStore] | None = None
