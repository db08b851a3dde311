"""A disk that fails for a moment, as one over a network does: what was asked is asked again, and done once.

The operating system's calls fail here because a test says so: no real disk fails at a chosen call.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from milepost_backends.contract import BlobExists, StorageRefused, StorageUnavailable
from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.local.tree import TEMPORARY
from tests.contracts.streams import is_missing, keys, read, stream

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
SMALL, LARGE = os.urandom(70_000), os.urandom(2 * MIB + 5)
PATIENT = 120.0


@pytest.fixture(autouse=True)
async def _directory(store: LocalBlobs) -> None:
    """Let the directory of the blobs be there, so that the calls that fail are those for the blob itself."""
    await store.put("a/before", stream(b"x"))


class Failing:
    """One call of the operating system, which fails from its ``begin``-th time on, ``times`` times.

    ``after``: what was asked is done all the same.
    """

    def __init__(self, real: Callable[..., Any], number: int, times: int, *, begin: int = 0, after: bool) -> None:
        self._real, self._number, self._after = real, number, after
        self.left, self._begin = times, begin

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self._begin -= 1
        if self._begin >= 0 or self.left == 0:
            return self._real(*arguments, **named)
        self.left -= 1
        if self._after:
            self._real(*arguments, **named)
        raise OSError(self._number, os.strerror(self._number))


def failing(
    monkeypatch: pytest.MonkeyPatch, call: str, times: int, number: int = errno.EIO, *, begin: int = 0, after: bool
) -> Failing:
    """Let a call of `os` fail."""
    fault = Failing(getattr(os, call), number, times, begin=begin, after=after)
    monkeypatch.setattr(os, call, fault)
    return fault


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("after", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize("call", ["write", "fsync", "link", "unlink"])
async def test_a_small_blob_is_written_anew(
    store: LocalBlobs, place: Path, monkeypatch: pytest.MonkeyPatch, call: str, after: bool, times: int
) -> None:
    fault = failing(monkeypatch, call, times, after=after)
    assert await store.put("a/blob", stream(SMALL), patience=PATIENT) == len(SMALL)
    assert fault.left == 0 or (call == "unlink" and after) or (call == "link" and after)
    monkeypatch.undo()
    assert await read(store, "a/blob") == SMALL
    assert os.listdir(place / TEMPORARY) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EEXIST, errno.ESTALE])
@pytest.mark.parametrize("whole", [SMALL, LARGE], ids=["small", "large"])
async def test_a_name_that_was_given_though_the_call_failed_is_its_own(
    store: LocalBlobs, monkeypatch: pytest.MonkeyPatch, whole: bytes, number: int
) -> None:
    """Over NFS a call may be carried out and its answer lost; the client then sends it again, and it fails."""
    failing(monkeypatch, "link", 1, number, after=True)
    assert await store.put("a/blob", stream(whole), patience=PATIENT) == len(whole)
    assert await read(store, "a/blob") == whole


async def test_a_large_blob_gets_its_name_in_the_end(
    store: LocalBlobs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "link", 3, after=False)
    assert await store.put("a/blob", stream(LARGE[:MIB], LARGE[MIB:]), patience=PATIENT) == len(LARGE)
    monkeypatch.undo()
    failing(monkeypatch, "fsync", 2, begin=1, after=False)  # that of the directory
    assert await store.put("a/next", stream(LARGE[:MIB], LARGE[MIB:]), patience=PATIENT) == len(LARGE)
    monkeypatch.undo()
    assert await read(store, "a/blob") == await read(store, "a/next") == LARGE
    assert os.listdir(place / TEMPORARY) == []


@pytest.mark.parametrize("call", ["write", "fsync"])
async def test_bytes_of_a_large_blob_that_may_be_lost_are_not_synced_once_more(
    store: LocalBlobs, place: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A second fsync may succeed without them, and the first megabytes are not at hand any more."""
    failing(monkeypatch, call, 1, after=False)
    with pytest.raises(StorageRefused):
        await store.put("a/blob", stream(LARGE[:MIB], LARGE[MIB:]), patience=PATIENT)
    assert await is_missing(store, "a/blob")
    assert os.listdir(place / TEMPORARY) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
async def test_a_refusal_is_not_repeated(store: LocalBlobs, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    fault = failing(monkeypatch, "link", 100, number, after=False)
    with pytest.raises(StorageRefused):
        await store.put("a/blob", stream(SMALL), patience=PATIENT)
    assert fault.left == 99


async def test_another_blob_stays_as_it_is(store: LocalBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.put("a/blob", stream(b"first"))
    failing(monkeypatch, "link", 2, after=False)
    with pytest.raises(BlobExists):
        await store.put("a/blob", stream(b"other"), patience=PATIENT)
    assert await read(store, "a/blob") == b"first"
    assert sorted(await keys(store)) == ["a/before", "a/blob"]


async def test_without_patience_one_failure_is_the_end(store: LocalBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "link", 1, after=False)
    with pytest.raises(StorageUnavailable):
        await store.put("a/blob", stream(SMALL), patience=0.0)
    assert await is_missing(store, "a/blob")


@pytest.mark.parametrize("call", ["open", "pread"])
async def test_a_read_survives_more_than_two_failures_in_a_row(
    store: LocalBlobs, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    await store.put("a/blob", stream(LARGE))
    fault = failing(monkeypatch, call, 3, after=False)
    assert await read(store, "a/blob") == LARGE
    assert fault.left == 0
