"""The contract of a backend: an object `Backend` that makes the parts of one storage technology.

The scheme of an address, such as ``s3``, selects the backend. A backend may also offer `Accounts`, which identify the
owner of a bearer token that another system has issued.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl

from milepost_backends.contract.blobs import BlobStore
from milepost_backends.contract.elections import Election
from milepost_backends.contract.errors import Misconfigured
from milepost_backends.contract.pointers import PointerStore


@dataclass(frozen=True, slots=True)
class Account:
    """An account of a program, such as a Kubernetes ServiceAccount. ``name`` is unique within ``namespace``."""

    namespace: str
    name: str


class Accounts(ABC):
    """The accounts of another system, such as a Kubernetes cluster, which issues tokens to its programs.

    Each call of `owner` sends a request to that system, so the caller should cache the answers.
    """

    @abstractmethod
    async def open(self) -> None:
        """Read the configuration, without connecting yet to the system that has the accounts. Idempotent.

        Raises `Misconfigured`, `StorageUnavailable`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connections to the system that has the accounts. Idempotent."""

    @abstractmethod
    async def owner(self, token: str) -> Account | None:
        """Return the account to which the system that has the accounts issued the bearer token ``token``.

        None means that this system refuses the token: it is not valid, is not meant for this service, or belongs to a
        user without an account. The wait is bounded. Raises `StorageUnavailable` if there is no answer, and
        `Misconfigured` if the system does not let this service check tokens. No error quotes the token.
        """


@dataclass(frozen=True, slots=True)
class PointersSettings:
    """The settings that a replica passes to its pointer store and its election.

    ``advertise`` is the URL at which other replicas and clients reach this replica. ``accept_loss`` has the values of
    the option ``--accept-loss``: each is the hash of one damage, whose loss of data the owner of the deployment has
    accepted, see `JournalDamaged`.
    """

    advertise: str
    accept_loss: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BlobsSettings:
    """The settings that a replica passes to its blob store.

    ``exchange_seconds`` is the time limit of one request to the storage server and its answer.
    """

    exchange_seconds: float


@dataclass(frozen=True, slots=True)
class Backend:
    """A storage technology, for addresses of one scheme, such as ``zookeeper`` in ``zookeeper://h1/path``.

    ``example`` is an address of this scheme, for error messages. ``pointers`` makes a pointer store for an address, and
    the election beside it; ``blobs`` makes a blob store; ``accounts`` makes, for an address and an audience, the object
    that identifies the owner of a token. Each of the three functions is None if the technology does not offer what it
    makes. No function connects to a server, and each raises `Misconfigured` for an invalid address. Each imports its
    libraries only when it is called, so that a replica does not load the libraries of unused technologies.
    """

    example: str
    pointers: Callable[[str, PointersSettings], tuple[PointerStore, Election]] | None = None
    blobs: Callable[[str, BlobsSettings], BlobStore] | None = None
    accounts: Callable[[str, str], Accounts] | None = None


def parse_options(query: str, known: Collection[str], address: str) -> dict[str, str]:
    """Return the options in ``query``, the part of an address after the question mark, as a dictionary of values by
    name.

    Each option must be one of ``known``, given once, and have a value. ``address`` names the kind of address in error
    messages. Raises `Misconfigured`, which never repeats a value, since a value may be a password.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise Misconfigured(f"the options of {address} must be name=value, separated by &") from None
    options = dict(pairs)
    if unknown := sorted(set(options) - set(known)):
        raise Misconfigured(f"{', '.join(unknown)} is not an option of {address}; use {', '.join(known)}")
    if len(options) < len(pairs):
        raise Misconfigured(f"an option of {address} is given twice")
    if empty := sorted(name for name, value in options.items() if not value):
        raise Misconfigured(f"the option {', '.join(empty)} of {address} needs a value")
    return options
