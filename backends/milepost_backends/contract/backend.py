"""A `Backend` is how a technology is added: it is registered under the scheme of an address.

One of the things that it may have to offer is `Accounts`: whose a bearer token is that another system has issued.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from milepost_backends.contract.blobs import BlobStore
from milepost_backends.contract.elections import Election
from milepost_backends.contract.pointers import PointerStore


@dataclass(frozen=True, slots=True)
class Account:
    """An account of a program, in a namespace of the system that knows it."""

    namespace: str
    name: str


class Accounts(ABC):
    """The accounts of another system. Each call asks that system anew; the caller keeps the answers."""

    @abstractmethod
    async def open(self) -> None:
        """Read the configuration; nothing is asked yet. Idempotent. Raises `Misconfigured`, `StorageUnavailable`."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections. Idempotent."""

    @abstractmethod
    async def owner(self, token: str) -> Account | None:
        """Return whose token this is; None only where the system says that it is nobody's, or not for us.

        The wait is bounded. Raises `StorageUnavailable` where there is no answer, and `Misconfigured` where we may not
        ask. No error repeats the token.
        """


@dataclass(frozen=True, slots=True)
class PointersSettings:
    """A replica gives these settings to its pointer store and its election.

    ``advertise`` is the URL at which other replicas and clients reach it. ``accept_loss`` names the damages whose loss
    the owner has accepted, see `JournalDamaged`.
    """

    advertise: str
    accept_loss: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BlobsSettings:
    """A replica gives these settings to its blob store: one exchange with a server may take ``exchange_seconds``."""

    exchange_seconds: float


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend makes the stores and elections for a scheme of addresses, as ``zookeeper`` in ``zookeeper://h1/path``.

    ``example`` is such an address, for error messages. ``pointers`` makes a pointer store for an address, and the
    election beside it; ``blobs`` makes a blob store, and ``accounts``, for an address and an audience, what says whose
    a token is. Each is None where the technology has no such thing. None of them connects to anything, and all raise
    `Misconfigured` for an address that is not valid. They import what they need when they are called, so that nobody
    pays for the libraries of a technology that is not used.
    """

    example: str
    pointers: Callable[[str, PointersSettings], tuple[PointerStore, Election]] | None = None
    blobs: Callable[[str, BlobsSettings], BlobStore] | None = None
    accounts: Callable[[str, str], Accounts] | None = None
