"""What was founded once is not founded anew: a mark among the blobs outlasts pointers of which nothing is left."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milepost_backends.contract import StorageUnavailable
from tests.service.acting import actor
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

HASTY = replace(PROMPT, maintenance_interval_seconds=0.05, collect_interval_seconds=0.05)


def marks(directory: Path) -> list[Path]:
    return list((directory / "blobs" / "founded").glob("*"))


async def refusal(running: Rig) -> str:
    """Why the replica does not lead, once it says so."""

    async def refused() -> bool:
        return running.replica.journal.unproven is not None

    await until(refused)
    assert running.replica.journal.unproven is not None
    return running.replica.journal.unproven


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


async def test_a_store_that_does_not_end_a_delete_holds_no_leadership_up(tmp_path: Path) -> None:
    await founded(tmp_path)
    async with rig(embedded(tmp_path), leading=False) as running:
        (token,) = re.findall(r"--accept-loss ([0-9a-f]{8})", await refusal(running))
    journal = replace(PROMPT.journal, accepted_losses=frozenset({token}))
    running = Rig(embedded(tmp_path), replace(PROMPT, blob_seconds=0.2, journal=journal))
    running.blobs.deletes_pass.clear()
    try:
        await running.start()
    finally:
        running.blobs.deletes_pass.set()
        await running.stop()


@pytest.mark.parametrize("altered", [b"", b"\xff\xfe", b"x" * 2000, b"an id\nERROR a line \x1b[2J of its own"])
async def test_an_altered_mark_refuses_as_well_and_says_so_in_one_line(tmp_path: Path, altered: bytes) -> None:
    await founded(tmp_path)
    (mark,) = marks(tmp_path)
    mark.unlink()
    mark.write_bytes(altered)
    async with rig(embedded(tmp_path), leading=False) as running:
        message = await refusal(running)
    assert message.isprintable()
    assert len(message) < 600


async def test_a_mark_of_another_deployment_is_not_taken_over_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with rig(embedded(tmp_path), HASTY) as running:
        (mark,) = marks(tmp_path)
        mark.unlink()
        mark.write_bytes(b"0123456789ab")

        async def ours() -> bool:
            return mark.exists() and mark.read_text() == running.replica.journal.deployment

        await until(ours)
    assert [record for record in caplog.records if "0123456789ab" in record.getMessage()]


async def test_who_was_deposed_meanwhile_leaves_the_mark_of_a_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(embedded(tmp_path)) as running:
        (mark,) = marks(tmp_path)
        mark.unlink()
        mark.write_bytes(b"0123456789ab")
        real = running.blobs.real.get

        async def deposed_meanwhile(*asked: Any, **expected: Any) -> AsyncIterator[bytes]:
            async for chunk in real(*asked, **expected):
                yield chunk
            running.election.in_doubt = True

        monkeypatch.setattr(running.blobs.real, "get", deposed_meanwhile)
        await running.replica.mark.set(
            running.replica.journal.deployment, may_go_on=running.replica.journal.lease_holds
        )
        assert mark.read_bytes() == b"0123456789ab"


async def test_a_directory_whose_name_is_no_utf_8_has_a_mark_too(tmp_path: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    deployment = await founded(directory)
    async with rig(embedded(directory), leading=False) as running:
        message = await refusal(running)
    assert deployment in message
    assert message.isprintable()
