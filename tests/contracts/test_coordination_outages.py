"""Every pointer store and election on a server: the server goes away, hangs and comes back under them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from milepost_backends.contract import (
    CommitRefused,
    Election,
    Head,
    Leadership,
    PointerStore,
    StorageUnavailable,
    Unknown,
)
from tests.contracts.journals import ROOT, SteadyWriter, put, taken_over, taken_over_at_last, writes
from tests.contracts.outages import COORDINATION_SERVERS, Breakable, CoordinationPlace, Server, mended
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.later]

CoordinationServer = Server[CoordinationPlace]

ONE = "http://127.0.0.1:7071"
DEADLINE = 60.0
SEVERAL_RENEWALS_SECONDS = 3.0


@pytest.fixture(scope="module", params=COORDINATION_SERVERS)
def _running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinationServer]:
    backend: Breakable[CoordinationPlace] = request.param
    with backend.running(tmp_path_factory.mktemp(backend.name)) as server:
        yield server


@pytest.fixture
def server(_running: CoordinationServer) -> Iterator[CoordinationServer]:
    """A server that may be stopped."""
    with mended(_running):
        yield _running


# -- pointers ----------------------------------------------------------------------------------------------------------


async def test_a_commit_to_a_server_that_says_nothing_is_unknown_and_settled_by_a_take_over(
    server: CoordinationServer,
) -> None:
    async with server.place().pointers() as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1"))
        head, _ = await taken_over(store)
        server.hang()
        end = await store.commit(head, writes(b=b"2"), head.revision + 1)
        assert isinstance(end, Unknown), end
        with pytest.raises(StorageUnavailable):
            await store.take_over(ROOT)
        server.wake()
        head, found = await taken_over_at_last(store)
        assert found in ({"a": b"1"}, {"a": b"1", "b": b"2"})  # it lay in the server's socket: either is true
        head = await put(store, head, writes(c=b"3"))
        assert (await taken_over(store))[1] == {**found, "c": b"3"}


async def test_without_a_server_a_commit_is_refused_and_never_lands(server: CoordinationServer) -> None:
    place = server.place()
    async with place.pointers() as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        server.stop()
        may_be_there = {"a"}
        numbers = itertools.count()

        async def refuses() -> bool:
            key = f"b{next(numbers)}"
            end = await store.commit(head, writes(**{key: b"2"}), head.revision + 1)
            if isinstance(end, CommitRefused):
                return True
            may_be_there.add(key)
            return False

        await until(refuses)  # what was sent to the dying server may be unknown
        for _ in range(place.refusals):
            assert await refuses()
        with pytest.raises(StorageUnavailable):
            await store.confirm(head)
        with pytest.raises(StorageUnavailable):
            await store.journals()
        server.start()
        await until(lambda: confirmed(store, head))
        await asyncio.sleep(0.5)  # the head that they were to be led by is still there: now or never
        async with place.pointers() as other:
            assert {"a"} <= set((await taken_over_at_last(other))[1]) <= may_be_there
        assert {"a"} <= set((await taken_over_at_last(store))[1]) <= may_be_there


async def confirmed(store: PointerStore, head: Head) -> bool:
    """Whether the store answers, and no other has taken over."""
    try:
        return await store.confirm(head)
    except StorageUnavailable:
        return False


async def test_what_was_acknowledged_is_there_after_the_server_was_killed_and_restarted(
    server: CoordinationServer,
) -> None:
    """The same object goes on, twice."""
    async with server.place().pointers() as store:
        writer = SteadyWriter(store)
        async with writer.writing():
            for _ in range(2):
                await writer.more()
                server.stop()
                await writer.failed()
                server.start()
            await writer.more()
        assert writer.acknowledged <= set((await taken_over_at_last(store))[1])


# -- elections ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def opened(election: Election) -> AsyncIterator[Election]:
    """Open and close it."""
    await election.open()
    try:
        yield election
    finally:
        await election.close()


async def won(election: Election) -> Leadership:
    """Campaign and win, within the deadline."""
    async with asyncio.timeout(DEADLINE):
        leadership = await election.campaign()
    assert leads(leadership)
    return leadership


async def won_at_last(election: Election) -> Leadership:
    """Win once the server answers again."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await election.campaign()
            except StorageUnavailable:
                await asyncio.sleep(0.1)


def leads(leadership: Leadership) -> bool:
    return leadership.remaining(time.monotonic()) > 0


async def test_a_server_that_restarts_within_the_lease_costs_no_leadership(server: CoordinationServer) -> None:
    async with opened(server.place().election(ONE, lasting=True)) as one:
        leadership = await won(one)
        lost = asyncio.ensure_future(leadership.wait_lost())
        server.stop()
        await asyncio.sleep(SEVERAL_RENEWALS_SECONDS)
        server.start()
        before = leadership.remaining(0.0)

        async def renewed() -> bool:
            return leadership.remaining(0.0) > before

        await until(renewed)
        assert leads(leadership)
        assert not lost.done()
        lost.cancel()


async def test_without_a_server_a_resignation_ends_at_its_deadline(server: CoordinationServer) -> None:
    async with opened(server.place().election(ONE, lasting=False)) as one:
        leadership = await won(one)
        server.hang()
        async with asyncio.timeout(DEADLINE):
            await leadership.resign()
        assert not leads(leadership)
        with pytest.raises(StorageUnavailable):
            await one.campaign()
        with pytest.raises(StorageUnavailable):
            await one.leader()
        server.wake()
        assert leads(await won_at_last(one))
