"""Bytes on their way in: which problem the caller gets for what the blob store says of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_backends.contract import BackendError, BlobExists, StorageFull, StorageUnavailable
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.blobs.intake import Incoming, take_in
from tests.support.network.faults import FaultyBlobs

pytestmark = pytest.mark.anyio

KEY = "flights/000000000001/a"


async def body() -> AsyncIterator[bytes]:
    yield b"state"


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (StorageFull("by the test"), Code.STORAGE_FULL, False),
        (StorageUnavailable("by the test"), Code.STORAGE_UNAVAILABLE, True),
        (BlobExists("by the test"), Code.STORAGE_UNAVAILABLE, True),
    ],
    ids=["full", "away", "taken"],
)
async def test_what_the_store_refuses_was_not_applied(
    tmp_path: Path, error: BackendError, code: Code, retryable: bool
) -> None:
    """A key that is taken helps nobody to know: it was drawn for this try, and the next one gets another."""
    blobs = FaultyBlobs(LocalBlobs(tmp_path))
    await blobs.open()
    blobs.puts.once(error)
    with pytest.raises(Problem) as raised:
        await take_in(blobs, KEY, Incoming(body()), None)
    refused = raised.value
    assert (refused.code, refused.outcome, refused.retryable) == (code, Outcome.NOT_APPLIED, retryable)
    assert (await take_in(blobs, KEY, Incoming(body()), None)).size == len(b"state")
