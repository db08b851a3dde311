"""What was founded once is not founded anew: a mark among the blobs outlasts pointers of which nothing is left."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from backends.contract import StorageUnavailable
from tests.service.acting import actor
from tests.support.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

HASTY = replace(PROMPT, tidy_interval_seconds=0.05, collect_interval_seconds=0.05)


def marks(directory: Path) -> list[Path]:
    return list((directory / "blobs" / "founded").glob("*"))


async def refusal(running: Rig) -> str:
    """Why the replica does not lead, once it says so."""

    async def refused() -> bool:
        return running.replica.damage is not None

    await until(refused)
    assert running.replica.damage is not None
    return running.replica.damage


async def founded(directory: Path) -> str:
    """A deployment's id, of which nothing but the blobs is left."""
    async with rig(embedded(directory)) as running:
        deployment = running.replica.journal.deployment
    shutil.rmtree(directory / "pointers")
    return deployment


async def test_pointers_of_which_nothing_is_left_begin_no_empty_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        first = await a.campaign()
        deployment = running.replica.journal.deployment
    assert [mark.read_text() for mark in marks(tmp_path)] == [deployment]
    (tmp_path / "pointers").rename(tmp_path / "away")
    async with rig(embedded(tmp_path), leading=False) as running:
        assert deployment in await refusal(running)
        assert not running.replica.leads
    (token,) = set(re.findall(r"--accept-loss ([0-9a-f]{8})", caplog.text))
    journal = replace(PROMPT.journal, accepted_losses=frozenset({token}), epoch_floor=first)
    async with rig(embedded(tmp_path), replace(PROMPT, journal=journal)) as running:
        assert await (await actor(running, "a")).campaign() > first
        assert [mark.read_text() for mark in marks(tmp_path)] == [running.replica.journal.deployment] != [deployment]
    shutil.rmtree(tmp_path / "pointers")
    (tmp_path / "away").rename(tmp_path / "pointers")
    async with rig(embedded(tmp_path)) as running:
        assert await (await actor(running, "a")).read("pointer") == b"state"


async def test_a_mark_that_is_gone_is_set_again(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), HASTY) as running:
        for mark in marks(tmp_path):
            mark.unlink()

        async def there() -> bool:
            return [mark.read_text() for mark in marks(tmp_path)] == [running.replica.journal.deployment]

        await until(there)


async def test_nothing_is_founded_while_nobody_can_tell_whether_it_was(tmp_path: Path) -> None:
    running = Rig(embedded(tmp_path))
    running.blobs.gets.from_now_on(StorageUnavailable("away"))
    try:
        await running.start(leading=False)

        async def asked() -> bool:
            return running.blobs.gets.met > 0

        await until(asked)
        assert not running.replica.leads
        assert not marks(tmp_path)
        running.blobs.gets.heal()
        await running.leads()
        assert [mark.read_text() for mark in marks(tmp_path)] == [running.replica.journal.deployment]
    finally:
        await running.stop()


async def test_a_directory_whose_name_is_no_utf_8_has_a_mark_too(tmp_path: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    deployment = await founded(directory)
    async with rig(embedded(directory), leading=False) as running:
        told = await refusal(running)
    assert deployment in told
    assert told.isprintable()
