"""Translates kazoo's exceptions into the errors of the contract; no other module does."""

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
    """A quota on a path is used up; only some servers enforce quotas."""


class Throttled(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """The server dropped a request because it has too many."""


class OtherError(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """The server answered with an error code that kazoo does not know."""


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
    """Register every error code of ZooKeeper servers with kazoo: an unknown code would end kazoo's thread."""
    EXCEPTIONS[-125] = QuotaExceeded
    EXCEPTIONS[-127] = Throttled
    for code in range(-128, 0):
        if code not in EXCEPTIONS:
            EXCEPTIONS[code] = OtherError


def backend_error(error: Exception, doing: str) -> BackendError:
    """Return the contract's error for a kazoo exception, for any operation but a commit."""
    if isinstance(error, NoAuthError | AuthFailedError | InvalidACLError):
        return Misconfigured(f"cannot {doing}: ZooKeeper does not permit it ({name_of(error)})")
    if isinstance(error, UnimplementedError | BadArgumentsError):
        return Misconfigured(f"cannot {doing}: this ZooKeeper does not know the request ({name_of(error)})")
    if isinstance(error, QuotaExceeded):
        return StorageFull(f"cannot {doing}: a quota in ZooKeeper is used up")
    return StorageUnavailable(f"cannot {doing}: {name_of(error)}")


def first_failure(results: list[object]) -> tuple[int, ZookeeperError] | None:
    """Return which operation of a transaction failed, and how; None if all succeeded.

    kazoo returns the failures of a transaction instead of raising them: the operations before the one that failed are
    rolled back, and those after it were not tried.
    """
    for number, result in enumerate(results):
        if isinstance(result, ZookeeperError) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return number, result
    return None


def refusal(error: ZookeeperError) -> Refusal | None:
    """Return why an operation of a transaction certainly failed; None if that is not certain."""
    for kind, reason in _REFUSALS.items():
        if isinstance(error, kind):
            return reason
    return None


def name_of(error: Exception) -> str:
    """Return the exception's type and text; kazoo's exceptions rarely have a text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
