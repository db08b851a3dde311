"""Translates kazoo's exceptions into the errors of the contract."""

from __future__ import annotations

from typing import Final

from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    UnimplementedError,
    ZookeeperError,
)

from milepost_backends.contract import BackendError, Misconfigured, Refusal, StorageFull, StorageUnavailable


class QuotaExceeded(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """A ZooKeeper quota on a path is used up. Servers enforce quotas only if they are configured to."""


class Throttled(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """The ZooKeeper server dropped a request because too many requests wait for it."""


class OtherError(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """The ZooKeeper server answered with an error code that kazoo does not know."""


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


def register_error_codes() -> None:
    """Make every error code of ZooKeeper servers known to kazoo, whose thread would end at an unknown code."""
    EXCEPTIONS[-125] = QuotaExceeded
    EXCEPTIONS[-127] = Throttled
    for code in range(-128, 0):
        if code not in EXCEPTIONS:
            EXCEPTIONS[code] = OtherError


def backend_error(error: Exception, doing: str) -> BackendError:
    """Return the contract's error for an exception of kazoo in any operation but a commit.

    ``doing`` completes the error message "cannot …".
    """
    if isinstance(error, NoAuthError | AuthFailedError | InvalidACLError):
        return Misconfigured(f"cannot {doing}: ZooKeeper does not permit it ({name_of(error)})")
    if isinstance(error, UnimplementedError | BadArgumentsError):
        return Misconfigured(f"cannot {doing}: this ZooKeeper does not know the request ({name_of(error)})")
    if isinstance(error, QuotaExceeded):
        return StorageFull(f"cannot {doing}: a quota in ZooKeeper is used up")
    return StorageUnavailable(f"cannot {doing}: {name_of(error)}")


def first_failure(results: list[object]) -> tuple[int, ZookeeperError] | None:
    """Return the index and the exception of the operation that made a transaction fail; None if the transaction
    succeeded.

    kazoo returns the failures of a transaction instead of raising them. It marks the operations before the failed one
    as rolled back, and those after it as not tried.
    """
    for number, result in enumerate(results):
        if isinstance(result, ZookeeperError) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return number, result
    return None


def refusal(error: ZookeeperError) -> Refusal | None:
    """Return why an operation of a transaction was refused; None if the error does not prove that nothing was
    written.
    """
    for kind, reason in _REFUSALS.items():
        if isinstance(error, kind):
            return reason
    return None


def name_of(error: Exception) -> str:
    """Return the exception's type and, if it has one, its text. kazoo's exceptions rarely have a text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
