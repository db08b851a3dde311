"""The collector: what nothing names goes, if an older leadership put it, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from milepost_backends.contract import BlobInfo, BlobStore, Refusal, StorageUnavailable
from milepost_backends.embedded.election import EmbeddedElection
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.basics.loop_time import TURN_SECONDS
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs import collector
from milepost_server.blobs.collector import collect
from milepost_server.blobs.keys import BlobPlace, blob_key, list_of, place_of
from milepost_server.model.records import DEPLOYMENT_KEY, Deployment, handle_key
from milepost_server.operations.trees import At
from tests.service.acting import STORE, actor
from tests.support.files import put as put_file
from tests.support.files import read
from tests.support.network.faults import Faults, refuse
from tests.support.network.rewriting import rewrite
from tests.support.servers.replicas import PROMPT, Backends, Build, Rig, embedded, rig
from tests.support.states import stored_states
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def put(blobs: BlobStore, key: str) -> str:
    """A blob under ``key``."""
    await blobs.put(key, stream_of(b"orphan"))
    return key


async def orphan(running: Rig) -> str:
    """A blob that this leadership put and that nothing names."""
    return await put_in(running, STORE, running.replica.journal.term)


async def put_in(running: Rig, store: str, term: int) -> str:
    """A blob of this deployment."""
    return await put(running.blobs.real, blob_key(running.replica.journal.deployment, store, term))


async def keys(running: Rig) -> set[str]:
    """What lies in the blob store."""
    return set(await stored_states(running.blobs.real))


async def collected(running: Rig, older_than: float = 0.0) -> int:
    """How many blobs one round hands to the deletion queue."""
    replica = running.replica
    return await collect(
        replica.journal,
        running.pointers,
        running.blobs,
        replica.deletions,
        replica.loop_time,
        older_than=older_than,
        may_go_on=replica.journal.lease_holds,
        ready=replica.manifests.ready,
    )


async def met(faults: Faults) -> None:
    """Wait until one more call has failed."""
    before = faults.met

    async def failed() -> bool:
        return faults.met > before

    await until(failed)


async def test_only_orphans_of_older_leaderships_go(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        named = set(running.blobs.put_keys)
        orphans = {await orphan(running), await put_in(running, "another-store", 1)}
        assert await collected(running) == 0
        await running.restart()
        of_this_leadership = await orphan(running)
        foreign = await put(running.blobs.real, "somebody/elses/file")
        assert await collected(running) == 2
        assert set(running.blobs.discarded) == orphans
        assert await keys(running) == {*named, of_this_leadership, foreign}
        assert await a.read("pointer") == b"state"


async def test_a_list_of_digests_stays_as_long_as_its_file_does(tmp_path: Path) -> None:
    """One whose file went without it, as by an older release, goes as any orphan does."""
    content = b"0123456789" * 120_000
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for path in ("kept", "deleted", "half deleted"):
            await put_file(running, path, epoch, content)
        kept, _, half = (
            running.operations.trees.entry(At(STORE, path)).blob for path in ("kept", "deleted", "half deleted")
        )
        assert len(await keys(running)) == 6
        await running.operations.trees.delete(At(STORE, "deleted"), epoch, recursive=False)
        await running.operations.trees.delete(At(STORE, "half deleted"), epoch, recursive=False)
        await running.blobs.real.delete(half)
        await running.restart()
        await collected(running)
        assert await keys(running) == {kept, list_of(kept)}
        assert await read(running, "kept") == content


async def test_burning_a_term_does_not_make_a_leaderships_own_blobs_older(tmp_path: Path) -> None:
    """A request whose bytes were put before the abandoned term may yet name them."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        mine = await orphan(running)
        term = running.replica.journal.term
        await running.pointers.real.take_over("root")
        await a.add("pointer", b"state")
        assert running.replica.journal.term > term
        assert await collected(running) == 0
        assert mine in await keys(running)


async def test_no_request_waits_until_all_blobs_were_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look takes a whole slice, as it seems; then the loop must turn after each few."""
    count, page = 300, 10
    async with rig(embedded(tmp_path)) as running:
        await running.restart()
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        looks: list[int] = [0]

        async def listed(_prefix: str, _older_than: float) -> AsyncIterator[BlobInfo]:
            for number in range(count):
                if number % page == 0:
                    await asyncio.sleep(0)
                yield BlobInfo(blob_key(running.replica.journal.deployment, STORE, 1), 1, 3600.0)

        def looked(key: str) -> BlobPlace | None:
            looks[-1] += 1
            running.clock.advance(TURN_SECONDS)
            return place_of(key)

        monkeypatch.setattr(running.blobs, "list", listed)
        monkeypatch.setattr(collector, "place_of", looked)
        round_ = asyncio.create_task(collected(running))
        while not round_.done():
            await asyncio.sleep(0)
            looks.append(0)
        assert round_.result() == count
        assert sum(looks) >= count
        assert max(looks) <= 2 * page


async def test_young_blobs_stay(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        young = await orphan(running)
        await running.restart()
        assert await collected(running, older_than=3600.0) == 0
        assert await keys(running) == {young}


async def test_what_lingers_for_readers_is_left_to_linger(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        old = await a.add("pointer", b"old")
        await running.restart(replace(PROMPT, linger_seconds=3600.0))
        await a.replace("pointer", old.version, b"new")
        assert await collected(running) == 0
        assert len(await keys(running)) == 2
        await running.restart()
        assert await collected(running) == 1
        assert await a.read("pointer") == b"new"


async def test_what_is_replaced_while_the_blobs_are_listed_lingers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        old = await a.add("pointer", b"old")
        await running.restart(replace(PROMPT, linger_seconds=3600.0))
        real = running.blobs.real.list

        async def listed(prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
            async for info in real(prefix, older_than):
                yield info
            await a.replace("pointer", old.version, b"new")

        monkeypatch.setattr(running.blobs, "list", listed)
        assert await collected(running) == 0
        assert running.blobs.discarded == []
        assert len(await keys(running)) == 2


async def test_the_blobs_of_removals_begun_and_of_cleared_handles_are_named_still(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("cleared", b"1")
        await a.clear()
        await a.add("removing", b"2")
        running.blobs.deletes.once(StorageUnavailable("by the test"))
        with pytest.raises(Exception, match="discard-failed"):
            await a.remove("removing")
        await running.restart()
        assert await collected(running) == 0
        assert len(await keys(running)) == 2


async def test_a_deposed_leader_collects_nothing(tmp_path: Path) -> None:
    """It may not know of the newest pointers: the head carries another's term."""
    async with rig(embedded(tmp_path)) as running:
        left = await orphan(running)
        await running.restart()
        await running.pointers.real.take_over("root")
        assert await collected(running) == 0
        assert await keys(running) == {left}


async def test_nothing_is_collected_while_the_lease_is_in_doubt(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        left = await orphan(running)
        await running.restart()
        running.election.in_doubt = True
        assert await collected(running) == 0
        assert await keys(running) == {left}
        running.election.in_doubt = False


async def test_it_comes_round_by_itself_also_after_the_store_was_away(tmp_path: Path) -> None:
    settings = replace(PROMPT, collect_after_seconds=0.0, collect_interval_seconds=0.02)
    async with rig(embedded(tmp_path)) as running:
        await orphan(running)
        await running.restart(settings)

        async def empty() -> bool:
            return await keys(running) == set()

        await until(empty)
        running.blobs.lists.from_now_on(StorageUnavailable("by the test"))
        running.blobs.deletes.from_now_on(StorageUnavailable("by the test"))
        left = await put_in(running, STORE, 1)
        await met(running.blobs.lists)
        running.blobs.lists.heal()
        await met(running.blobs.deletes)
        assert await keys(running) == {left}
        running.blobs.deletes.heal()
        running.clock.advance(60.0)
        await until(empty)


async def test_a_blob_that_cannot_be_discarded_is_tried_again(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        left = await orphan(running)
        await running.restart()
        running.blobs.deletes.once(StorageUnavailable("by the test"))
        assert await collected(running) == 1
        assert await keys(running) == {left}
        running.clock.advance(60.0)
        await running.emptied_trash()
        assert await keys(running) == set()


async def test_a_store_with_a_record_that_cannot_be_read_keeps_all_of_its_blobs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The record may name any of them: a newer release wrote it, and will lead again."""
    key = handle_key(STORE, "pointer")
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        orphans = {await orphan(running)}
        of_another_store = await put_in(running, "another-store", 1)
        await running.stop()
        rewrite(tmp_path, key, lambda record: {**record, "schema": record["schema"] + 1})
        await running.restart()
        assert await collected(running) == 1
        assert running.blobs.discarded == [of_another_store]
        assert [record.message for record in caplog.records if record.name == "milepost.collector"] == [
            f"collect no blobs of store {STORE}: what may name them cannot be read"
        ]
        await running.stop()
        rewrite(tmp_path, key, lambda record: {**record, "schema": record["schema"] - 1})
        await running.restart()
        assert await a.read("pointer") == b"state"
        assert await collected(running) == 1
        assert set(running.blobs.discarded) == orphans


async def test_deployments_that_share_a_place_leave_each_others_blobs_alone(tmp_path: Path) -> None:
    blobs = LocalBlobs(tmp_path / "blobs")

    def build(name: str) -> Build:
        place = tmp_path / name
        return lambda url: Backends(EmbeddedPointers(place), EmbeddedElection(place, url, poll=0.02), blobs)

    async with rig(build("one")) as one, rig(build("two")) as two:
        a = await actor(one, "a")
        await a.add("pointer", b"state")
        left = await orphan(two)
        assert one.replica.journal.deployment != two.replica.journal.deployment
        await two.restart()
        assert await collected(two) == 1
        assert two.blobs.discarded == [left]
        assert await a.read("pointer") == b"state"


async def test_a_deployment_keeps_its_id(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        deployment = running.replica.journal.deployment
        await running.restart()
        assert running.replica.journal.deployment == deployment


async def test_nothing_is_collected_while_it_cannot_be_read_whose_blobs_are_whose(tmp_path: Path) -> None:
    """Bytes are taken in all the same, and the record that cannot be read stays as it is. No store begins meanwhile,
    since the deployment may be one of several cells.
    """
    async with rig(embedded(tmp_path)) as running:
        await orphan(running)
        await (await actor(running, "before")).add("first", b"state")
        await running.stop()
        rewrite(tmp_path, DEPLOYMENT_KEY, lambda record: {**record, "schema": 99})
        await running.restart()
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        assert await collected(running) == 0
        await running.stop()
        rewrite(tmp_path, DEPLOYMENT_KEY, lambda record: {**record, "schema": 1})
        await running.restart()
        assert await collected(running) == 1
        assert await a.read("pointer") == b"state"


async def test_a_leader_whose_deployment_cannot_be_founded_yet_tries_again(tmp_path: Path) -> None:
    running = Rig(embedded(tmp_path))
    running.pointers.disturb(refuse(Refusal.FULL))
    try:
        await running.start()
        assert running.replica.journal.term == 2
        found = running.replica.journal.read().view.state.get(DEPLOYMENT_KEY)
        assert found == Deployment(running.replica.journal.deployment)
    finally:
        await running.stop()
