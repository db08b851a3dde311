"""A data node takes bytes, and they are published once: whoever leads by then, and whatever answer is lost.

The data node is a replica that does not lead, and speaks to the leader in this process: an answer can be lost at a
chosen moment only here. That real replicas speak to each other is shown in tests/wire/webhdfs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from milepost.errors import (
    AccessDenied,
    AlreadyExists,
    BlobMissing,
    Corrupt,
    Fenced,
    IdempotencyMismatch,
    NotExist,
    OutcomeUnknown,
    Problem,
    Unavailable,
)
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.blobs.collector import collect
from milepost_server.blobs.delivery import DeliveryCut
from milepost_server.blobs.intake import Incoming
from milepost_server.blobs.keys import place_of
from milepost_server.blobs.range_digests import RANGE_BYTES
from milepost_server.blobs.shared_key import SharedKey
from milepost_server.http.webhdfs.datanode import data_node as data_node_module
from milepost_server.http.webhdfs.datanode.data_node import DataNode
from milepost_server.http.webhdfs.datanode.exchanges import NoAnswer, NotReached
from milepost_server.http.webhdfs.datanode.peer import Peer, Publish, Published, published
from milepost_server.http.webhdfs.datanode.transfer_tokens import LATE_SECONDS, LIFE_SECONDS, DownloadToken, UploadToken
from milepost_server.journal import Journal
from milepost_server.model.requests.base import BlobRef
from milepost_server.model.requests.trees import OntoExisting
from milepost_server.model.trees import Entry
from milepost_server.operations.files import Publisher
from milepost_server.operations.trees import At
from milepost_server.replica import submitter
from milepost_server.replica.leader_locator import LeaderLocator
from milepost_server.replica.settings import Settings
from tests.service.acting import STORE, actor
from tests.support.files import put
from tests.support.network.faults import before, undisturbed
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.skipping import BACKEND, skip
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LARGE = bytes(range(256)) * 64
AT = At(STORE, "state/1")
WALL = 1_800_000_000.0
SHORTEST_LEASE = 4.0
"""In seconds: that of ZooKeeper's sessions, unless an address says otherwise. A Lease in Kubernetes lasts fifteen."""


@pytest.fixture
def anyio_backend() -> object:
    """A loop on which deadlines run out when a test says so."""
    return BACKEND


class Wire(Peer):
    """Delivers to the leader in this process. ``faults`` are what happens to the next messages."""

    def __init__(self, leader: Rig) -> None:
        self.leader = leader
        self.faults: list[str] = []
        self.attempts: list[int] = []
        self.seconds: list[float] = []
        self.token: UploadToken | None = None
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """What happens after a refusal whose answer is lost."""

    async def publish(self, leader: str, message: Publish, seconds: float) -> Published:  # noqa: ARG002
        self.seconds.append(seconds)
        fault = self.faults.pop(0) if self.faults else ""
        self.attempts.append(message.attempt)
        if fault == "not reached":
            raise NotReached("a fault of this test")
        if fault == "frozen":
            raise NoAnswer(f"a fault of this test: no answer within {seconds} s")
        if fault == "full of requests":
            raise problem(Code.TOO_MANY_REQUESTS, "a fault of this test")
        token = self.token
        assert token is not None
        try:
            ended = await self.leader.operations.publisher.publish(
                At(message.store, message.path),
                token.epoch,
                BlobRef(message.blob, message.size, message.sha256),
                message.data,
                overwrite=token.overwrite,
                key=token.key,
                attempt=message.attempt,
            )
        except Problem:
            if fault == "refused by the last leader":
                await self.leader.restart()
            if fault == "refusal lost":
                assert self.meanwhile is not None
                await self.meanwhile()
                raise NoAnswer("a fault of this test") from None
            raise
        if fault == "answer lost":
            raise NoAnswer("a fault of this test")
        if fault == "answer lost, and the leader":
            await self.leader.restart()
            raise NoAnswer("a fault of this test")
        if fault == "collected":
            await self.leader.blobs.delete(message.blob)
        return published(ended)


@dataclass
class Scene:
    """A leader, a data node that does not lead, and what lies between."""

    leader: Rig
    idle: Rig
    wire: Wire
    epoch: int
    later: float = 0.0
    data_node: DataNode = field(init=False)

    def __post_init__(self) -> None:
        self.data_node = self.data_node_of(self.idle)

    def data_node_of(self, rig: Rig, journal: Journal | None = None, publisher: Publisher | None = None) -> DataNode:
        """The data node of a replica, perhaps with another journal or publisher than its own."""
        return DataNode(
            journal or rig.replica.journal,
            rig.replica.blobs,
            publisher or rig.operations.publisher,
            LeaderLocator(rig.election, rig.advertise, rig.clock),
            self.wire,
            rig.clock,
            lambda: WALL + self.later,
            max_state_bytes=None,
            inline_below=4096,
        )

    def token(self, key: str = "k", *, overwrite: bool = False, until: int = int(WALL)) -> UploadToken:
        """What the leader writes into a redirect."""
        journal = self.leader.replica.journal
        return UploadToken(STORE, AT.path, self.epoch, overwrite, key, journal.deployment, journal.term, until)

    async def take(self, token: UploadToken, *parts: bytes | Callable[[], Awaitable[object]]) -> None:
        """Take a body; what can be called is called in the midst of it."""

        async def chunks() -> AsyncIterator[bytes]:
            for part in parts:
                if isinstance(part, bytes):
                    yield part
                else:
                    await part()

        self.wire.token = token
        await self.data_node.take(token, "", Incoming(chunks()))

    def entry(self) -> Entry:
        """What is at the path now."""
        return self.leader.operations.trees.entry(AT)

    async def blobs(self) -> set[str]:
        """The keys of all blobs of files."""
        return {info.key async for info in self.leader.blobs.list("", 0.0) if place_of(info.key) is not None}

    async def content(self) -> bytes:
        """The bytes of the file."""
        entry = self.entry()
        if entry.data is not None:
            return entry.data
        return b"".join([chunk async for chunk in self.leader.blobs.get(entry.blob)])


@asynccontextmanager
async def scene(directory: Path, settings: Settings = PROMPT) -> AsyncIterator[Scene]:
    settings = replace(settings, collect_after_seconds=0.0)
    async with rig(embedded(directory), settings) as leader:
        idle = Rig(embedded(directory), settings, "http://127.0.0.1:8")
        await idle.replica.blobs.open()
        await idle.election.open()
        wire = Wire(leader)
        epoch = await (await actor(leader, "driver")).campaign()
        try:
            yield Scene(leader, idle, wire, epoch)
        finally:
            await idle.election.close()
            await idle.replica.blobs.close()


@pytest.mark.parametrize("content", [b"", b"v1", b"x" * 4096, LARGE], ids=len)
async def test_what_a_door_took_is_published(tmp_path: Path, content: bytes) -> None:
    async with scene(tmp_path) as at:
        await at.take(at.token(), content[:100], content[100:])
        assert (at.entry().size, at.entry().epoch) == (len(content), at.epoch)
        assert bool(at.entry().blob) is (len(content) >= 4096)
        assert await at.content() == content


async def test_a_put_that_took_long_leaves_less_time_to_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop's client waits for a minute after the last byte, whatever of it the blob store has used up."""
    async with scene(tmp_path) as at:
        blobs = at.idle.replica.blobs
        real = blobs.put

        async def slow(key: str, stream: AsyncIterator[bytes], *, patience: float) -> int:
            size = await real(key, stream, patience=patience)
            at.idle.clock.advance(data_node_module.ANSWER_SECONDS)
            return size

        monkeypatch.setattr(blobs, "put", slow)
        at.wire.faults = ["not reached"] * 1000
        with pytest.raises(Unavailable, match="could not be published"):
            await at.take(at.token(), LARGE)
        assert at.wire.attempts == [1]


@pytest.mark.parametrize("content", [b"v1", LARGE], ids=len)
async def test_a_lost_answer_is_asked_for_again_and_the_put_is_made_once(tmp_path: Path, content: bytes) -> None:
    async with scene(tmp_path) as at:
        at.wire.faults = ["not reached", "answer lost", "full of requests", "answer lost"]
        await at.take(at.token(), content)
        assert at.wire.attempts == [1, 2, 3, 4, 5]
        assert at.entry().created_revision == at.leader.replica.journal.head.revision
        assert len(await at.blobs()) == bool(at.entry().blob)
        with pytest.raises(AlreadyExists):
            await at.take(at.token("another"), content)


@pytest.mark.parametrize("content", [b"v1", LARGE], ids=len)
async def test_a_leader_that_does_not_answer_is_not_waited_for_while_another_may_lead(
    tmp_path: Path, content: bytes
) -> None:
    async with scene(tmp_path) as at:
        at.wire.faults = ["frozen", "frozen"]
        await at.take(at.token(), content)
        assert at.wire.attempts == [1, 2, 3]
        assert all(0 < seconds <= SHORTEST_LEASE for seconds in at.wire.seconds)
        assert await at.content() == content


@pytest.mark.parametrize("content", [b"v1", LARGE], ids=len)
async def test_a_door_that_comes_late_does_not_ask_a_leader_that_does_not_know_it(
    tmp_path: Path, content: bytes
) -> None:
    """It was frozen. The client asked elsewhere meanwhile, under its key, and deleted the file. When another replica
    begins to lead, nobody knows any more that there was a newer attempt.
    """
    async with scene(tmp_path) as at:

        async def overtaken() -> None:
            await put(at.leader, AT.path, at.epoch, content, inline=len(content) < 100, key="k", attempt=1001)
            assert await at.leader.operations.trees.delete(AT, at.epoch, recursive=False)

        at.wire.faults = ["refused by the last leader"]
        with pytest.raises(OutcomeUnknown, match="attempt 1001"):
            await at.take(at.token(), content, overtaken)
        assert at.wire.attempts == [1]
        with pytest.raises(NotExist):
            at.entry()


async def test_a_refusal_whose_answer_is_lost_takes_no_bytes_from_the_attempt_that_is_not_refused(
    tmp_path: Path,
) -> None:
    """Something was in the way, and is not any more when the data node asks again."""
    async with scene(tmp_path) as at:
        await at.take(at.token("first"), b"in the way")
        at.wire.faults = ["refusal lost"]
        at.wire.meanwhile = lambda: at.leader.operations.trees.delete(AT, at.epoch, recursive=False)
        await at.take(at.token("second"), LARGE)
        await at.leader.emptied_trash()
        assert await at.content() == LARGE


async def test_bytes_that_are_refused_for_now_are_there_when_they_are_not_refused_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest is committed so late that its rows are not in memory any more, and a put is decided right after it.

    Who asked for it has to give up before the journal does, which is after ten seconds.
    """
    monkeypatch.setattr(submitter, "COMMIT_SECONDS", 9.0)
    async with scene(tmp_path, replace(PROMPT, compact_from=1, compact_after_seconds=0.0)) as at:
        await put(at.leader, "state/0", at.epoch)
        begun, gate = at.leader.pointers.committed, asyncio.Event()
        at.leader.pointers.disturb(undisturbed, before(gate.wait))
        compacting = asyncio.create_task(at.leader.replica._compaction.compact(STORE))
        await at.leader.commits(begun + 2)
        skip(9.5, at.leader.clock)
        with pytest.raises(OutcomeUnknown):
            await compacting

        async def landed_behind_it() -> None:
            async def waits() -> bool:
                return bool(at.leader.replica.journal._admission.queue)

            await until(waits)
            gate.set()

        _, _ = await asyncio.gather(at.take(at.token(), LARGE), landed_behind_it())
        assert at.wire.attempts == [1, 2]
        await at.leader.emptied_trash()
        assert await at.content() == LARGE


class LeadsOnce:
    """The journal of a data node that leads when a body has come, and has lost its lease when it looks again."""

    def __init__(self) -> None:
        self.looks = 0

    def lease_holds(self) -> bool:
        self.looks += 1
        return self.looks == 1


class Stuck:
    """The publisher of a leader that has lost its storage: it ends long after its lease has."""

    def __init__(self) -> None:
        self.cancelled = False

    async def publish(self, *_: object, **__: object) -> int | None:
        try:
            await asyncio.sleep(3600.0)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return None


async def test_a_door_that_leads_does_not_wait_for_itself_while_another_may_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own attempt is not cut in the middle: like one at another leader, it goes on, and ends by itself."""
    monkeypatch.setattr(data_node_module, "EXCHANGE_SECONDS", 0.05)
    async with scene(tmp_path) as at:
        stuck = Stuck()
        at.data_node = at.data_node_of(at.idle, cast(Journal, LeadsOnce()), cast(Publisher, stuck))
        await asyncio.wait_for(at.take(at.token(), b"v1"), 10.0)
        assert (at.wire.attempts, stuck.cancelled) == ([2], False)
        assert await at.content() == b"v1"


@pytest.mark.parametrize("content", [b"v1", LARGE], ids=len)
async def test_a_put_that_the_old_leader_made_is_known_to_the_new_one(tmp_path: Path, content: bytes) -> None:
    async with scene(tmp_path) as at:
        at.wire.faults = ["answer lost, and the leader"]
        await at.take(at.token(), content)
        assert at.entry().epoch == at.epoch
        assert await at.content() == content
        if at.entry().blob:
            assert place_of(at.entry().blob) in {place_of(key) for key in await at.blobs()}


async def test_a_body_that_outlives_its_leader_is_published_under_the_next(tmp_path: Path) -> None:
    """Its first blob is of an older term, which the collector may delete at any moment: it is not what is named."""
    async with scene(tmp_path) as at:
        token = at.token()
        await at.take(token, LARGE[:5000], at.leader.restart, LARGE[5000:])
        named = place_of(at.entry().blob)
        assert named is not None
        assert named.term >= at.leader.replica.journal.first_term > token.term
        replica = at.leader.replica
        await collect(
            replica.journal,
            replica.pointers,
            replica.blobs,
            replica.deletions,
            replica.loop_time,
            older_than=0.0,
            may_go_on=lambda: True,
            ready=replica.manifests.ready,
        )
        assert await at.blobs() == {at.entry().blob}
        assert await at.content() == LARGE


async def test_a_collector_that_was_quicker_fails_the_put_and_names_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        await at.take(at.token("first"), b"v1")
        at.wire.faults = ["collected"]
        with pytest.raises(BlobMissing):
            await at.take(at.token("second", overwrite=True), LARGE[:5000], at.leader.restart, LARGE[5000:])
        assert await at.content() == b"v1"


@pytest.mark.parametrize("size", [len(LARGE), 2_000_000])
async def test_a_driver_that_was_deposed_in_mid_body_publishes_nothing(tmp_path: Path, size: int) -> None:
    """Neither do digests stay that lay beside a large file."""
    async with scene(tmp_path) as at:

        async def depose() -> None:
            await (await actor(at.leader, "driver")).end()
            await (await actor(at.leader, "next")).campaign()

        with pytest.raises(Fenced):
            await at.take(at.token(), LARGE[:5000], depose, bytes(size - 5000))
        await at.leader.emptied_trash()
        assert await at.blobs() == set()
        with pytest.raises(NotExist):
            at.entry()


@pytest.mark.parametrize(
    ("fault", "error"), [("not reached", Unavailable), ("answer lost", OutcomeUnknown)], ids=["certain", "unknown"]
)
async def test_in_the_end_it_says_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, error: type[Exception]
) -> None:
    monkeypatch.setattr(data_node_module, "PUBLISH_SECONDS", 0.5)
    async with scene(tmp_path) as at:
        at.wire.faults = [fault] * 1000
        with pytest.raises(error, match="could not be published"):
            await at.take(at.token(), b"v1")


@pytest.mark.parametrize("deposed", [False, True], ids=["current", "deposed"])
@pytest.mark.parametrize("content", [b"v1", LARGE], ids=len)
async def test_a_landed_put_is_answered_again_for_the_same_bytes_and_refused_for_others(
    tmp_path: Path, content: bytes, deposed: bool
) -> None:
    async with scene(tmp_path) as at:
        await at.take(at.token(), content)
        token, blobs = at.token(), await at.blobs()
        if deposed:
            await (await actor(at.leader, "driver")).end()
            await (await actor(at.leader, "next")).campaign()
        for other in (content[:-1] + b"!", content + b"more", b"", LARGE + content):
            with pytest.raises(IdempotencyMismatch):
                await at.take(token, other)
        await at.take(token, content)
        assert await at.content() == content
        await at.leader.emptied_trash()
        assert await at.blobs() == blobs


async def test_a_permit_that_is_sent_again_makes_no_file_anew_however_late_its_last_byte_comes(tmp_path: Path) -> None:
    """It is known that it has been committed for as long as anything can be published with it."""
    async with scene(tmp_path) as at:
        token, begun = at.token(), at.leader.clock()
        await at.take(token, LARGE)
        assert await at.leader.operations.trees.rename(AT, "state/2", at.epoch, OntoExisting.REFUSE)
        for waited in (LIFE_SECONDS + 15.0, LIFE_SECONDS + LATE_SECONDS - 10.0):
            at.leader.clock.advance(begun + waited - at.leader.clock())
            await put(at.leader, "another", at.epoch)
            await at.take(token, LARGE[:5000], LARGE[5000:])
            with pytest.raises(NotExist):
                at.entry()


async def test_a_door_that_leads_publishes_nothing_with_a_permit_that_is_too_old(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.data_node = at.data_node_of(at.leader)
        await at.take(at.token("in time", until=int(WALL) - LATE_SECONDS), b"v1")
        with pytest.raises(AccessDenied, match="too late"):
            await at.take(at.token("late", overwrite=True, until=int(WALL) - LATE_SECONDS - 1), b"v2")
        assert await at.content() == b"v1"
        assert at.wire.attempts == []


async def test_a_body_without_an_end_is_taken_for_no_longer_than_it_can_be_published(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        taken = 0

        async def without_end() -> AsyncIterator[bytes]:
            nonlocal taken
            while taken < 100:
                taken += 1
                at.later += LATE_SECONDS / 10
                yield LARGE

        token = at.wire.token = at.token()
        with pytest.raises(AccessDenied, match="too late"):
            await at.data_node.take(token, "", Incoming(without_end()))
        assert taken == 11
        assert await at.blobs() == set()


async def test_bytes_of_another_store_or_deployment_become_no_file_of_this_one(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        await at.take(at.token(), LARGE)
        publisher, real = at.leader.operations.publisher, at.entry().blob
        deployment, _, term, name = real.split("/")
        for key in (f"{deployment}/other/{term}/{name}", f"another/{STORE}/{term}/{name}", "doors/x", "../x"):
            with pytest.raises(AccessDenied):
                await publisher.publish(
                    AT, at.epoch, BlobRef(key, 1, "0"), None, overwrite=True, key="forged", attempt=1
                )


async def test_all_replicas_get_one_key_whoever_makes_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        made = await SharedKey(at.leader.replica.blobs, at.leader.pointers).get()
        assert await SharedKey(at.idle.replica.blobs, at.idle.pointers).get() == made
        assert len(made) == 32


@pytest.mark.parametrize("size", [5_000, 3_000_000])
async def test_what_is_damaged_is_not_given_in_two_parts_either(tmp_path: Path, size: int) -> None:
    content = bytes(range(250)) * (size // 250)
    async with scene(tmp_path) as scene_:
        await scene_.take(scene_.token(), content)
        entry = scene_.entry()
        token = DownloadToken(AT.store, AT.path, entry.blob, entry.size, entry.sha256, 0)
        for start in (0, 1, size // 2, size - 1, size):
            given, chunks = await scene_.data_node.give(token, start, None)
            assert b"".join([chunk async for chunk in chunks]) == content[start:]
            assert given == size - start

        (stored,) = (tmp_path / "blobs").rglob(entry.blob.rpartition("/")[2])
        stored.write_bytes(content[:-1] + b"!")
        got = bytearray()
        data_node = scene_.data_node_of(scene_.idle)  # which has none of it in memory

        async def go_on() -> None:
            async for chunk in (await data_node.give(token, len(got), None))[1]:
                got.extend(chunk)

        for _ in range(2):  # as Hadoop's client does: where it was cut off, it goes on from there
            with pytest.raises((DeliveryCut, Corrupt)):
                await go_on()
        assert len(got) < size


async def test_a_reader_at_an_offset_takes_what_he_needs_from_the_store(tmp_path: Path) -> None:
    """He asks for the rest of the file, as Hadoop's client does, and closes the connection when he has enough."""
    content = bytes(range(250)) * 40_000
    async with scene(tmp_path) as at:
        await at.take(at.token(), content)
        entry = at.entry()
        token = DownloadToken(AT.store, AT.path, entry.blob, entry.size, entry.sha256, 0)
        at.idle.blobs.bytes_read = 0
        for start in (len(content) - 8, len(content) - 5_000, 4, 3_000_000, 3_060_000):
            size, chunks = await at.data_node.give(token, start, None)
            assert size == len(content) - start
            assert content[start:].startswith(await anext(chunks))
        assert at.idle.blobs.bytes_read < 4 * RANGE_BYTES
