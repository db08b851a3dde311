"""Queries that use none of `Job`'s functions: which of them end with the job, and how SIGTERM ends the program."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import milepost
from milepost.core.checkpoint_location import HEADER
from milepost.errors import SessionLost, WrongCheckpoint
from tests.spark.jobs import Place, finish, wait_until
from tests.spark.trials.queries import read_input

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

_BEFORE_SECONDS = 1.0
_SLEEP_SECONDS = 60


def start(place: Place, location: str) -> StreamingQuery:
    """A query of Spark's own kind, which has run all its batches."""
    writer = read_input(place.spark, str(place.input)).writeStream.option("checkpointLocation", location)
    query = writer.format("noop").start()
    query.processAllAvailable()
    return query


@contextmanager
def terminated() -> Iterator[None]:
    """Send SIGTERM to this very process in a moment."""
    timer = threading.Timer(_BEFORE_SECONDS, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    yield
    timer.join()


def next_epoch(client: milepost.Client, place: Place) -> int:
    """The epoch that a standby is granted at once, since the driver has resigned."""
    store = client.session("a standby").store(place.name)
    epoch = store.campaign(5.0).epoch
    store.resign()
    return epoch


def test_sigterm_stops_a_query_that_the_program_awaits_itself(place: Place, client: milepost.Client) -> None:
    def body() -> None:
        with place.lead(ttl=120.0) as job:
            query = start(place, job.checkpointLocation)
            with terminated():
                query.awaitTermination()
            assert query.exception() is None
            assert job.stopped

    with pytest.raises(SystemExit) as ended:
        body()
    assert ended.value.code == 128 + signal.SIGTERM
    assert next_epoch(client, place) == 2


def test_sigterm_ends_a_program_that_calls_spark_before_it_has_a_query(place: Place, client: milepost.Client) -> None:
    """The call that the signal cuts short holds up neither the program's own way out nor that of `lead`."""
    jvm: Any = place.spark.sparkContext._jvm
    counted: list[int] = []

    def body() -> None:
        with place.lead(ttl=120.0), terminated():
            try:
                jvm.java.lang.Thread.sleep(_SLEEP_SECONDS * 1000)
            finally:
                counted.append(place.spark.range(3).count())

    with pytest.raises(SystemExit) as ended:
        body()
    assert ended.value.code == 128 + signal.SIGTERM
    assert counted == [3]
    assert place.spark.conf.get(HEADER, None) is None
    assert next_epoch(client, place) == 2


def test_all_queries_in_the_jobs_tree_end_with_its_block_and_no_others(place: Place) -> None:
    with place.lead() as job:
        own, below, beside, elsewhere = (
            start(place, location)
            for location in (
                job.checkpointLocation,
                f"{job.checkpointLocation}/sub",
                job.checkpointLocation.replace("/checkpoint", "/another"),
                str(place.directory / "elsewhere"),
            )
        )
    try:
        assert [query.isActive for query in (own, below, beside, elsewhere)] == [False, False, False, True]
    finally:
        elsewhere.stop()


def test_a_lost_session_ends_them_too(place: Place) -> None:
    def body() -> None:
        with place.lead() as job:
            query, below = start(place, job.checkpointLocation), start(place, f"{job.checkpointLocation}/sub")
            job._session._lease.end("as if it had run out")
            wait_until(lambda: not query.isActive and not below.isActive)
            finish(job, query)

    with pytest.raises(SessionLost):
        body()


@pytest.mark.parametrize("place_of", ["below", "elsewhere"])
def test_a_query_elsewhere_is_not_awaited_as_the_jobs(place: Place, place_of: str) -> None:
    with place.lead() as job:
        location = f"{job.checkpointLocation}/sub" if place_of == "below" else str(place.directory / "elsewhere")
        query = start(place, location)
        with pytest.raises(WrongCheckpoint, match=r"job\.checkpointLocation"):
            finish(job, query)
        assert not query.isActive
