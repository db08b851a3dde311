"""Directories that the server's user may not write to; for root, a child gives its rights away first."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost_backends.embedded.election import EmbeddedElection
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_backends.local.blobs import LocalBlobs
from tests.contracts.journals import ROOT, put, writes
from tests.contracts.streams import Stalled, stream
from tests.support.children import child

pytestmark = pytest.mark.anyio

MODULE = "tests.backends.children.unprivileged"


def shared_directory(mode: int) -> Iterator[Path]:
    """A directory that other users can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path)
        directory.chmod(mode)
        yield directory
        directory.chmod(0o755)


@pytest.fixture
def read_only_directory() -> Iterator[Path]:
    yield from shared_directory(0o555)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    yield from shared_directory(0o777)


@pytest.fixture
def directory_of_locked_files(open_directory: Path) -> Iterator[Path]:
    for name in ("pointers.db", "leader.lock"):
        (open_directory / name).touch(mode=0o000)
    (open_directory / ".tmp").mkdir(mode=0o000)
    yield open_directory
    (open_directory / ".tmp").chmod(0o700)


async def test_a_directory_without_write_permission_is_misconfigured(read_only_directory: Path) -> None:
    for directory in (read_only_directory, read_only_directory / "below"):
        async with child(MODULE, str(directory)) as unprivileged:
            assert await unprivileged.rest() == ["Misconfigured"] * 3


async def test_with_write_permission_it_opens(open_directory: Path) -> None:
    async with child(MODULE, str(open_directory / "below")) as unprivileged:
        assert await unprivileged.rest() == ["open"] * 3


async def test_files_without_permission_are_misconfigured(directory_of_locked_files: Path) -> None:
    """A database that may only be read would let a server start that can never commit."""
    async with child(MODULE, str(directory_of_locked_files)) as unprivileged:
        assert await unprivileged.rest() == ["Misconfigured"] * 3


WIDE = 0o000
"""A umask that takes nothing away."""


def modes(directory: Path) -> dict[str, int]:
    """The rights of everything below, and of the directory itself."""
    return {str(path.relative_to(directory)): path.stat().st_mode & 0o777 for path in directory.rglob("*")}


async def everything_used(directory: Path) -> None:
    """Each kind of file that the embedded backends keep is there for a moment: look at them all."""
    pointers, election = EmbeddedPointers(directory), EmbeddedElection(directory, "http://127.0.0.1:9")
    blobs = LocalBlobs(directory / "blobs")
    stalled = Stalled(b"x" * 2**20, b"y")
    for part in (pointers, election, blobs):
        await part.open()
    await election.campaign()
    await put(pointers, await pointers.take_over(ROOT), writes(a=b"1"))
    await blobs.put("deployment/store/1/blob", stream(b"x"))
    putting = asyncio.create_task(blobs.put("deployment/store/1/other", aiter(stalled)))
    async with asyncio.timeout(60):
        await stalled.stalled.wait()
    found = modes(directory)
    putting.cancel()
    await blobs.delete("deployment/store/1/blob")
    for part in (blobs, election, pointers):
        await part.close()
    files = {"pointers.db", "pointers.db-wal", "pointers.db-shm", "leader.lock", "leader.json"}
    assert files <= found.keys()
    assert {path: mode for path, mode in found.items() if mode & 0o077} == {}
    assert len(found) > len(files) + 5


async def test_what_is_stored_is_for_the_servers_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(WIDE)
    try:
        await everything_used(tmp_path / "data")
    finally:
        os.umask(before)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


async def test_what_others_may_read_is_narrowed_and_directories_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    await everything_used(directory)
    for name in ("pointers.db", "leader.lock", "leader.json"):
        (directory / name).chmod(0o664)
    directory.chmod(0o755)
    with caplog.at_level("INFO", "milepost_backends"):
        await everything_used(directory)
    log = caplog.text
    assert all(
        f"took all rights of other users from {directory / name}" in log
        for name in ("pointers.db", "leader.lock", "leader.json")
    )
    assert f"may read or enter {directory} (mode 755)" in log
    assert directory.stat().st_mode & 0o777 == 0o755
