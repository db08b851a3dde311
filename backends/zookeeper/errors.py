"""The one place where kazoo's exceptions become the contract's."""

from __future__ import annotations

from typing import Final

from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    ZookeeperError,
)

from backends.contract import BackendError, Misconfigured, Refusal, StorageFull, StorageUnavailable


class QuotaExceeded(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """A quota on a path is used up, where the servers enforce quotas."""


class Throttled(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """The server dropped a request because it has too many."""


class OtherError(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """Another answer of a server that kazoo does not know of."""


_REFUSALS: Final = {
    NoAuthError: Refusal.DENIED,
    InvalidACLError: Refusal.DENIED,
    QuotaExceeded: Refusal.FULL,
    NoNodeError: Refusal.FAILED,
    NodeExistsError: Refusal.FAILED,
    NotEmptyError: Refusal.FAILED,
    NoChildrenForEphemeralsError: Refusal.FAILED,
    BadVersionError: Refusal.FAILED,
}


def teach_codes() -> None:
    """Let kazoo know of every code that servers answer with: one that it does not know ends its thread."""
    EXCEPTIONS[-125] = QuotaExceeded
    EXCEPTIONS[-127] = Throttled
    for code in range(-128, 0):
        if code not in EXCEPTIONS:
            EXCEPTIONS[code] = OtherError


def backend_error(error: Exception, doing: str) -> BackendError:
    """What an exception of kazoo means to the service, for anything but a commit."""
    if isinstance(error, NoAuthError | AuthFailedError | InvalidACLError):
        return Misconfigured(f"cannot {doing}: ZooKeeper does not permit it ({name_of(error)})")
    if isinstance(error, QuotaExceeded):
        return StorageFull(f"cannot {doing}: a quota in ZooKeeper is used up")
    return StorageUnavailable(f"cannot {doing}: {name_of(error)}")


def culprit(results: list[object]) -> tuple[int, ZookeeperError] | None:
    """Which operation of a transaction failed, and how; None if all went well.

    kazoo returns a transaction's failures: those before the culprit are rolled back, those after it were not tried.
    """
    for number, result in enumerate(results):
        if isinstance(result, ZookeeperError) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return number, result
    return None


def refusal(error: ZookeeperError) -> Refusal | None:
    """Why an operation of a transaction failed for certain; None if that is no certainty."""
    for kind, reason in _REFUSALS.items():
        if isinstance(error, kind):
            return reason
    return None


def name_of(error: Exception) -> str:
    """In words; kazoo's exceptions rarely carry any."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
