"""Uploads under a leader that fails, is in doubt, or is another one by now; their bytes lie on a real S3 server."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from milepost.errors import AlreadyExists, OutcomeUnknown, Unavailable, UploadUnknown
from milepost.wire import Outcome
from milepost_backends.contract import Commit, Refusal, StorageUnavailable
from milepost_backends.s3.blobs import S3Blobs
from milepost_server.blobs.collector import collect
from milepost_server.blobs.intake import Incoming
from milepost_server.blobs.keys import blob_key
from milepost_server.model.records import KEPT_KEYS_SECONDS, Upload, upload_key
from milepost_server.model.requests.base import Attempt
from milepost_server.operations import states
from milepost_server.operations.uploads import Reference
from milepost_server.replica.submitter import Caller
from tests.contracts.places import Services
from tests.contracts.streams import stream
from tests.service.acting import STORE
from tests.support.network.faults import RealCommit, before, lose_answer, lose_request, refuse
from tests.support.servers import s3
from tests.support.servers.replicas import PROMPT, Build, Rig, embedded, rig
from tests.support.states import stored_states
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

CONTENT = b"the bytes of a state"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
AWAY = StorageUnavailable("by the test")
TTL = PROMPT.upload_seconds
SWEPT = replace(PROMPT, collect_after_seconds=0.0)


@pytest.fixture
def build(tmp_path: Path, services: Services) -> Build:
    """Pointers in a directory, blobs in a bucket."""
    url = s3.fresh_url(tmp_path, services)
    return embedded(tmp_path, lambda: S3Blobs(url))


async def opened(running: Rig, *names: str) -> None:
    for name in names:
        await running.operations.sessions.open(Caller(Attempt(name)), 3600.0, "")


async def announced(running: Rig, caller: Caller | None = None) -> Mapping[str, Any]:
    """An upload that was announced just now."""
    acting = caller or Caller(Attempt("a"))
    return (await running.operations.uploads.create(acting, STORE, len(CONTENT), SHA256)).answer.body


async def put(upload: Mapping[str, Any]) -> int:
    """Send the signed request; the status."""
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30.0) as client:
        answer = await client.request(upload["method"], upload["url"], headers=upload["headers"], content=CONTENT)
    return answer.status_code


async def uploaded(running: Rig) -> Reference:
    """A reference to bytes that were put."""
    upload = await announced(running)
    assert await put(upload) == 200
    return reference(upload)


def reference(upload: Mapping[str, Any]) -> Reference:
    return Reference(upload["upload"], len(CONTENT), SHA256)


async def add(running: Rig, ref: Reference, name: str = "pointer", caller: Caller | None = None) -> str:
    """Add a handle from an upload; its version."""
    reply = await running.operations.states.add(caller or Caller(Attempt("a")), STORE, name, ref, {})
    assert reply.answer.version is not None
    return reply.answer.version


async def read(running: Rig, name: str = "pointer") -> bytes:
    delivery = await running.operations.reader.read(STORE, name, None, lambda handle: states.Span(0, handle.size))
    return b"".join([chunk async for chunk in delivery.chunks])


async def keys(running: Rig) -> set[str]:
    """What lies in the bucket."""
    return set(await stored_states(running.blobs))


def pending(running: Rig) -> int:
    return running.replica.journal.read().view.pending_uploads(STORE)


async def ended(running: Rig) -> None:
    """Wait until no upload is pending any more."""

    async def none() -> bool:
        return pending(running) == 0

    await until(none)


# -- its time ----------------------------------------------------------------------------------------------------------


async def test_a_new_leader_knows_it_and_gives_it_its_full_time_again(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        upload = await announced(running)
        running.clock.advance(0.9 * TTL)
        await running.restart()
        assert running.replica.uploads.expires_in(STORE, upload["upload"]) > 0.9 * TTL
        running.clock.advance(0.9 * TTL)
        assert await put(upload) == 200
        await add(running, reference(upload))
        assert await read(running) == CONTENT
        await announced(running)
        running.clock.advance(1.1 * TTL)
        await ended(running)
        assert await read(running) == CONTENT


async def test_a_url_for_a_retry_is_good_for_the_time_that_is_left(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        first = await announced(running, Caller(Attempt("a", "k")))
        running.clock.advance(0.75 * TTL)
        again = await announced(running, Caller(Attempt("a", "k", 2)))
        assert again["upload"] == first["upload"]
        assert 0 < again["expires_in"] <= 0.25 * TTL
        assert await put(again) == 200


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not-committed"])
async def test_its_bytes_go_only_after_its_end_is_committed(build: Build, committed: bool) -> None:
    async with rig(build, SWEPT) as running:
        await opened(running, "a")
        await uploaded(running)
        running.pointers.disturb(lose_answer() if committed else lose_request())
        running.pointers.take_overs.from_now_on(AWAY)
        begun = running.pointers.committed
        running.clock.advance(TTL + 1.0)
        await running.commits(begun + 1)
        await running.emptied_trash()
        assert len(await keys(running)) == 1
        running.pointers.take_overs.heal()
        await ended(running)

        async def gone() -> bool:
            return await keys(running) == set()

        await until(gone)


async def test_an_end_that_cannot_be_committed_is_tried_again(build: Build) -> None:
    async with rig(build, SWEPT) as running:
        await opened(running, "a")
        await uploaded(running)
        running.pointers.disturb(refuse(Refusal.FULL))
        running.clock.advance(TTL + 1.0)
        await ended(running)


async def test_its_bytes_go_also_if_the_lease_is_in_doubt_when_its_end_lands(build: Build) -> None:
    async with rig(build, SWEPT) as running:
        await opened(running, "a")
        await uploaded(running)

        async def doubted(commit: RealCommit) -> Commit:
            end = await commit()
            asyncio.get_running_loop().call_soon(doubt)
            return end

        def doubt() -> None:
            running.election.in_doubt = True
            asyncio.get_running_loop().call_later(0.2, trust)

        def trust() -> None:
            running.election.in_doubt = False

        running.pointers.disturb(doubted)
        running.clock.advance(TTL + 1.0)

        async def gone() -> bool:
            return await keys(running) == set()

        await until(gone)
        await running.leads()
        assert pending(running) == 0


async def test_what_a_slow_put_leaves_after_the_end_is_swept_up(build: Build) -> None:
    """The request had begun in time; the bytes are there only when the record has ended long ago."""
    async with rig(build, replace(PROMPT, collect_after_seconds=600.0)) as running:
        await opened(running, "a")
        upload = await announced(running)
        running.clock.advance(TTL + 1.0)
        await ended(running)
        assert await put(upload) == 200
        with pytest.raises(UploadUnknown):
            await add(running, reference(upload))
        assert len(await keys(running)) == 1
        running.clock.advance(601.0)

        async def gone() -> bool:
            return await keys(running) == set()

        await until(gone)


@pytest.mark.parametrize("away", ["removed", "replaced"])
async def test_what_is_put_again_by_the_url_of_an_upload_that_was_taken_is_swept_up(build: Build, away: str) -> None:
    """The bytes are gone, so the URL is good again."""
    async with rig(build, SWEPT) as running:
        await opened(running, "a")
        upload = await announced(running)
        assert await put(upload) == 200
        version = await add(running, reference(upload))
        first = await keys(running)
        if away == "removed":
            await running.operations.handles.remove(Caller(Attempt("a")), STORE, "pointer", None)
        else:
            other = Incoming(stream(b"other"))
            await running.operations.states.replace(Caller(Attempt("a")), STORE, "pointer", version, other, None)

        async def gone() -> bool:
            return not first & await keys(running)

        await until(gone)
        assert await put(upload) == 200
        assert first <= await keys(running)
        running.clock.advance(TTL + 1.0)
        await until(gone)


async def test_an_end_while_its_bytes_are_looked_at_is_an_end(build: Build) -> None:
    async with rig(build, SWEPT) as running:
        await opened(running, "a")
        ref = await uploaded(running)
        running.blobs.looks_pass.clear()
        adding = asyncio.create_task(add(running, ref))
        running.clock.advance(TTL + 1.0)
        await ended(running)
        running.blobs.looks_pass.set()
        with pytest.raises(UploadUnknown):
            await adding
        assert (await running.operations.handles.list_page(STORE, "", 10)).handles == []


async def test_records_of_ended_uploads_are_dropped_after_ten_minutes(build: Build) -> None:
    async with rig(build, replace(PROMPT, maintenance_interval_seconds=0.02)) as running:
        await opened(running, "a")
        used, waiting = await uploaded(running), await announced(running)
        await add(running, used)
        running.clock.advance(KEPT_KEYS_SECONDS - 30.0)
        await asyncio.sleep(0.1)
        assert isinstance(record(running, used.upload), Upload)
        running.clock.advance(60.0)

        async def dropped() -> bool:
            return record(running, used.upload) is None

        await until(dropped)
        assert isinstance(record(running, waiting["upload"]), Upload)


def record(running: Rig, upload: str) -> object:
    return running.replica.journal.read().view.get(upload_key(STORE, upload))


# -- attempts ----------------------------------------------------------------------------------------------------------


async def test_of_many_at_once_one_takes_it(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        ref = await uploaded(running)
        names = [f"pointer-{number}" for number in range(8)]
        ends = await asyncio.gather(*(add(running, ref, name) for name in names), return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends) == ["UploadUnknown"] * 7 + ["str"]
        assert len((await running.operations.handles.list_page(STORE, "", 10)).handles) == 1


async def test_a_failed_attempt_discards_nothing(build: Build) -> None:
    async with rig(build, replace(PROMPT, request_seconds=0.5)) as running:
        await opened(running, "a")
        ref = await uploaded(running)
        await running.operations.states.add(Caller(Attempt("a")), STORE, "pointer", await uploaded(running), {})
        with pytest.raises(AlreadyExists):
            await add(running, ref)
        running.pointers.disturb(lose_request())
        running.pointers.take_overs.from_now_on(AWAY)
        with pytest.raises(OutcomeUnknown):
            await add(running, ref, "another")
        running.pointers.take_overs.heal()

        async def settled() -> bool:
            return running.replica.journal.terms_abandoned > 0 and running.replica.journal.head.term > 1

        await until(settled)
        await running.emptied_trash()
        assert running.blobs.discarded == []
        await add(running, ref, "another")
        assert await read(running, "another") == CONTENT


async def test_an_attempt_in_doubt_that_landed_has_used_it(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        ref = await uploaded(running)
        running.pointers.disturb(lose_answer())
        version = await add(running, ref, caller=Caller(Attempt("a", "k")))
        again = await running.operations.states.add(Caller(Attempt("a", "k", 2)), STORE, "pointer", ref, {})
        assert (again.answer.version, again.answer.replayed) == (version, True)
        with pytest.raises(UploadUnknown):
            await add(running, ref, "another")
        assert pending(running) == 0


async def test_an_announcement_in_doubt_is_one_upload(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        running.pointers.disturb(lose_answer())
        first = await announced(running, Caller(Attempt("a", "k")))
        again = await announced(running, Caller(Attempt("a", "k", 2)))
        assert again["upload"] == first["upload"]
        assert pending(running) == 1


async def test_two_attempts_of_an_announcement_at_once_are_one_upload(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        gate = asyncio.Event()
        running.pointers.disturb(before(gate.wait))
        older = asyncio.create_task(announced(running, Caller(Attempt("a", "k"))))
        await running.commits(running.pointers.committed + 1)
        newer = asyncio.create_task(announced(running, Caller(Attempt("a", "k", 2))))
        await asyncio.sleep(0.05)
        gate.set()
        first, second = await older, await newer
        assert first["upload"] == second["upload"]
        assert pending(running) == 1
        assert await put(second) == 200
        assert await put(first) == 412


async def test_what_cannot_be_signed_is_not_recorded_and_a_retry_tells_that_the_first_was(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        running.blobs.signs.once(AWAY)
        assert await refused(running, Caller(Attempt("a"))) is Outcome.NOT_APPLIED
        assert pending(running) == 0
        await announced(running, Caller(Attempt("a", "k")))
        running.blobs.signs.once(AWAY, after=1)
        assert await refused(running, Caller(Attempt("a", "k", 2))) is Outcome.APPLIED
        assert pending(running) == 1


async def refused(running: Rig, caller: Caller) -> Outcome:
    """The answer to an announcement whose URL cannot be signed."""
    with pytest.raises(Unavailable) as raised:
        await announced(running, caller)
    return raised.value.outcome


async def test_while_the_bytes_cannot_be_looked_at_nothing_is_decided(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        ref = await uploaded(running)
        running.blobs.looks.once(AWAY)
        with pytest.raises(Unavailable):
            await add(running, ref)
        await add(running, ref)


# -- the collector -----------------------------------------------------------------------------------------------------


async def test_the_collector_spares_what_a_pending_upload_names(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        kept, used = await uploaded(running), await uploaded(running)
        await add(running, used)
        orphan = await left_behind(running)
        await running.restart()
        assert await collected(running) == 1
        assert orphan not in await keys(running)
        await add(running, kept, "another")
        assert await read(running, "another") == await read(running) == CONTENT


async def test_the_collector_takes_what_an_ended_upload_left(build: Build) -> None:
    async with rig(build) as running:
        await opened(running, "a")
        await uploaded(running)
        running.clock.advance(TTL + 1.0)
        await ended(running)
        await running.restart()
        assert await collected(running) == 1
        assert await keys(running) == set()


async def left_behind(running: Rig) -> str:
    """Bytes that nothing names."""
    key = blob_key(running.replica.journal.deployment, STORE, 1)
    await running.blobs.real.put(key, stream(CONTENT))
    return key


async def collected(running: Rig) -> int:
    replica = running.replica
    return await collect(
        replica.journal,
        running.pointers,
        running.blobs,
        replica.deletions,
        replica.loop_time,
        older_than=0.0,
        may_go_on=replica.journal.lease_holds,
        ready=replica.manifests.ready,
    )
