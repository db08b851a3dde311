"""The key that replicas share is what was made, or is named as damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.errors import Corrupt
from milepost_server.blobs.shared_key import SharedKey
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "one digit": lambda content: _other(content[:1]) + content[1:],
    "a digit of the checksum": lambda content: content[:-1] + _other(content[-1:]),
    "cut short": lambda content: content[:20],
    "cut short in the checksum": lambda content: content[:-1],
    "emptied": lambda content: content[:0],
    "longer": lambda content: content + b"0",
}


def _other(digit: bytes) -> bytes:
    return b"0" if digit != b"0" else b"1"


def key_of(running: Rig) -> SharedKey:
    """The key as a replica that has just started sees it."""
    return SharedKey(running.replica.blobs, running.replica.pointers)


def stored(directory: Path) -> Path:
    (found,) = (path for path in (directory / "blobs" / "doors").iterdir() if path.is_file())
    found.chmod(0o600)
    return found


async def blobs_line(running: Rig) -> tuple[bool, str]:
    line = next(line for line in await running.probes().run() if line.part == "blobs")
    return line.ok, line.text


@pytest.mark.parametrize("kind", DAMAGE)
async def test_a_damaged_key_is_named_and_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    async with rig(embedded(tmp_path)) as running:
        made = await key_of(running).get()
        assert await blobs_line(running) == (True, "listed")
        content = stored(tmp_path).read_bytes()
        stored(tmp_path).write_bytes(DAMAGE[kind](content))
        key = key_of(running)
        for _ in range(2):
            with pytest.raises(Corrupt, match=key.name):
                await key.get()
        assert [record.message for record in caplog.records if key.name in record.message] == [key.damage]
        ready, said = await blobs_line(running)
        assert ready
        assert key.name in said
        assert "docs/damage.md" in said
        stored(tmp_path).write_bytes(content)
        assert await key.get() == made
        assert key.damage is None


async def test_a_key_that_is_deleted_is_made_anew(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        made = await key_of(running).get()
        stored(tmp_path).unlink()
        assert await blobs_line(running) == (True, "listed")
        assert await key_of(running).get() != made


async def test_a_key_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        made = await key_of(running).get()
        content = stored(tmp_path).read_bytes()
        stored(tmp_path).write_bytes(content[:64])
        assert await key_of(running).get() == made
