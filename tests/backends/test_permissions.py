"""Directories that the server's user may not write to; for root, a child gives its rights away first."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
