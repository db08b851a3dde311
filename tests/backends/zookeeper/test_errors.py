"""What kazoo's exceptions mean to the service."""

from __future__ import annotations

import pytest
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    UnimplementedError,
)

from milepost_backends.contract import BackendError, Misconfigured, Refusal, StorageFull, StorageUnavailable
from milepost_backends.zookeeper.errors import (
    OtherError,
    QuotaExceeded,
    backend_error,
    first_failure,
    refusal,
    register_error_codes,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NoAuthError(), Misconfigured),
        (AuthFailedError(), Misconfigured),
        (InvalidACLError(), Misconfigured),
        (UnimplementedError(), Misconfigured),
        (BadArgumentsError(), Misconfigured),
        (QuotaExceeded(), StorageFull),
        (ConnectionLoss(), StorageUnavailable),
        (SessionExpiredError(), StorageUnavailable),
        (KazooException("odd"), StorageUnavailable),
    ],
)
def test_outside_of_a_commit(error: KazooException, kind: type[BackendError]) -> None:
    translated = backend_error(error, "do this")
    assert type(translated) is kind
    assert "cannot do this" in str(translated)


def test_of_a_failed_transaction_the_one_real_cause_is_found() -> None:
    cause = BadVersionError()
    assert first_failure([RolledBackError(), cause, RuntimeInconsistency()]) == (1, cause)
    assert first_failure(["/a", True]) is None


def test_only_what_is_certain_is_a_refusal() -> None:
    assert refusal(QuotaExceeded()) is Refusal.FULL
    assert refusal(NoAuthError()) is Refusal.DENIED
    assert refusal(BadVersionError()) is Refusal.FAILED
    assert refusal(NoChildrenForEphemeralsError()) is Refusal.FAILED
    assert refusal(SessionExpiredError()) is None
    assert refusal(OtherError()) is None


def test_every_code_of_a_server_is_known_to_kazoo() -> None:
    register_error_codes()
    assert isinstance(EXCEPTIONS[-125](), QuotaExceeded)
    assert isinstance(EXCEPTIONS[-101](), KazooException)
    assert isinstance(EXCEPTIONS[-126](), OtherError)
