"""What is an outage, and what is damage."""

from __future__ import annotations

import pytest

from milepost.core.calls.outages import hindrance
from milepost.errors import (
    AccessDenied,
    BlobMissing,
    ConnectionFailed,
    Corrupt,
    MilepostError,
    NotExist,
    ServerFault,
    StateTruncated,
    Unavailable,
    VersionMismatch,
)
from milepost.wire import Code


def truncated(cause: Exception | None) -> StateTruncated:
    error = StateTruncated("3 of 10 bytes came")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "obstacle",
    [ConnectionFailed("reset"), Unavailable(Code.NO_LEADER), ServerFault(Code.INTERNAL), AccessDenied(Code.FORBIDDEN)],
)
def test_what_stands_in_the_way_says_nothing_of_the_state(obstacle: MilepostError) -> None:
    assert hindrance(obstacle) is obstacle
    assert hindrance(truncated(obstacle)) is obstacle


@pytest.mark.parametrize(
    "damage",
    [
        Corrupt(Code.CORRUPT),
        BlobMissing(Code.BLOB_MISSING),
        NotExist(Code.NOT_EXIST),
        VersionMismatch(Code.VERSION_MISMATCH),
    ],
)
def test_damage_and_loss_are_no_outage(damage: MilepostError) -> None:
    assert hindrance(damage) is None
    assert hindrance(truncated(damage)) is None


@pytest.mark.parametrize("cause", [None, ValueError("no archive")])
def test_bytes_that_are_wrong_are_no_outage(cause: Exception | None) -> None:
    assert hindrance(truncated(cause)) is None
