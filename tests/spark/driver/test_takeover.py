"""Losing the lead and giving it up: fenced, expired, the service away, SIGTERM."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import milepost
import milepost.spark
from milepost.core.checkpoint_location import HEADER
from milepost.errors import ConnectionFailed, Fenced, SessionExpired, SessionLost
from milepost.spark import BatchContext, published_batches
from milepost.spark.driver import driver
from milepost.spark.job import Job
from milepost.spark.pointer import JobPointer
from milepost.store import StateHandleStore
from milepost.wire import Code
from testbed.server import ServerProcess
from tests.spark.jobs import Place, finish, wait_until
from tests.spark.trials.queries import KINDS, read_input, write_input
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def drivers_session(client: milepost.Client, name: str) -> milepost.Session:
    """The very session that the driver of ``name`` leads by, as if somebody else held it as well."""
    leading = client.store(name).current_epoch()
    assert leading.session is not None
    return client.session("impostor", session_id=leading.session)


def succeed(client: milepost.Client, name: str) -> StateHandleStore:
    """Take the epoch away from a driver whose session lives on."""
    drivers_session(client, name).store(name).resign()
    store = client.session("successor").store(name)
    store.campaign()
    return store


@pytest.mark.promise
def test_a_fenced_driver_publishes_nothing_and_says_so_as_itself(place: Place, client: milepost.Client) -> None:
    def publish(_frame: DataFrame, context: BatchContext) -> None:
        if context.batchId == 1:
            succeed(client, place.name)

    with place.lead() as job:
        query = place.start(job, job.exactlyOnce(publish))
        with pytest.raises(Fenced) as fenced:
            finish(job, query)
    assert fenced.value.current == 2
    assert client.store(place.name).get("job").labels["published"] == "0"


def test_a_fenced_driver_calls_nothing_either(place: Place, client: milepost.Client) -> None:
    """Between two batches: the next one is refused at its entry, before the publishing function is called."""
    published: list[int] = []

    def publish(_frame: DataFrame, context: BatchContext) -> None:
        published.append(context.batchId)

    with place.lead() as job:
        query = place.start(job, job.exactlyOnce(publish), forever=True)
        query.processAllAvailable()
        succeed(client, place.name)
        place.add_input(3)
        with pytest.raises(Fenced):
            finish(job, query)
    assert published == [0, 1]


def test_a_driver_that_was_succeeded_before_it_started_its_query_is_fenced(
    place: Place, client: milepost.Client
) -> None:
    """It stood still between its recovery and the start: Spark writes before there is a query that could fail."""

    def body() -> None:
        with place.lead() as job:
            succeed(client, place.name)
            place.start(job, job.files(place.output))

    with pytest.raises(Fenced) as fenced:
        body()
    assert fenced.value.current == 2


def test_a_driver_whose_first_batch_its_successor_has_logged_calls_nothing(
    place: Place, client: milepost.Client
) -> None:
    """Spark need not write anything to begin with a batch that is logged, so nothing was refused until then."""
    published: list[int] = []

    def publish(_frame: DataFrame, context: BatchContext) -> None:
        published.append(context.batchId)

    with place.lead() as job:
        function = job.exactlyOnce(publish)

        def later(frame: DataFrame, batch: int) -> None:
            succeed(client, place.name).resign()
            function(frame, batch)

        with pytest.raises(Fenced):
            finish(job, place.start(job, later))
    with place.lead() as job:
        assert (job.recovery.resumes_at, job.recovery.replays) == (0, True)
    assert published == []


@pytest.mark.parametrize("how", ["succeeded", "expired", "away", "lost at last"])
def test_a_driver_that_loses_the_lead_while_it_takes_over_stands_by_again(
    place: Place, client: milepost.Client, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its successor leads, its session ends, or Spark does not reach the service: nothing was begun that could not be
    again.
    """
    place.run(lambda *_: None)
    take = JobPointer.take

    def meanwhile(*arguments: Any, **named: Any) -> JobPointer:
        monkeypatch.undo()
        pointer = take(*arguments, **named)
        if how == "succeeded":
            succeed(client, place.name).resign()
            pointer.store.raise_if_fenced()
        if how == "expired":
            drivers_session(client, place.name).close()
            raise SessionExpired(Code.SESSION_EXPIRED, "what the next call would be told")
        raise ConnectionFailed("away")

    lead = driver.Driver.lead

    def lost(ours: driver.Driver, job: Job) -> None:
        monkeypatch.undo()
        lead(ours, job)
        job._session.close()

    if how == "lost at last":
        monkeypatch.setattr(driver.Driver, "lead", lost)
    else:
        monkeypatch.setattr(JobPointer, "take", meanwhile)
    with place.lead() as job:
        assert job.epoch == (4 if how == "succeeded" else 3)
        assert place.spark.conf.get(HEADER) == f"X-Milepost-{place.name}-{job.epoch}"
        assert job.published == 1


def test_who_does_not_wait_for_the_query_is_told_at_the_end_of_the_block(place: Place, client: milepost.Client) -> None:
    def publish(_frame: DataFrame, _context: BatchContext) -> None:
        succeed(client, place.name)

    def body() -> None:
        with place.lead() as job:
            query = place.start(job, job.exactlyOnce(publish))
            wait_until(lambda: not query.isActive)

    with pytest.raises(Fenced):
        body()


@pytest.mark.parametrize("files", [0, 2])
def test_a_query_that_is_refused_a_write_of_its_own_is_told_as_fenced_too(
    place: Place, client: milepost.Client, files: int
) -> None:
    """Nobody waits for it, and no function of ours saw what ended it; with no file it never came to a first batch."""
    coming = place.directory / "coming"
    write_input(coming, files)

    def body() -> None:
        with place.lead() as job:
            writer = read_input(place.spark, str(coming)).writeStream.foreachBatch(job.files(place.output))
            query = writer.option("checkpointLocation", job.checkpointLocation).start()
            query.processAllAvailable()
            succeed(client, place.name)
            write_input(place.directory / "more", files + 1)
            (place.directory / "more" / f"{files:05}.json").rename(coming / f"{files:05}.json")
            wait_until(lambda: not query.isActive)

    with pytest.raises(Fenced):
        body()
    assert len(published_batches(place.spark, place.url, place.name)) == files


def test_a_lost_session_stops_a_query_that_has_nothing_to_do(place: Place, client: milepost.Client) -> None:
    with place.lead(ttl=9.0) as job:
        query = place.start(job, job.exactlyOnce(lambda *_: None), forever=True)
        query.processAllAvailable()
        drivers_session(client, place.name).close()
        with pytest.raises(SessionLost):
            finish(job, query)
    assert not query.isActive


@pytest.mark.promise
def test_an_outage_of_the_service_delays_a_batch_and_fails_none(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It lasts until a write was given up by the call that was to make it."""
    with ServerProcess(tmp_path / "service", "--log-level", "warning") as service:
        service.start()
        over = threading.Event()

        def come_back() -> None:
            wait_until(lambda: "write not resolved yet" in caplog.text)
            service.start()
            over.wait()  # a server lives as long as the thread that started it

        back = threading.Thread(target=come_back, daemon=True)

        def publish(frame: DataFrame, context: BatchContext) -> None:
            frame.write.parquet(context.staging(place.output))
            if context.batchId == 0:
                service.kill()
                back.start()

        away = Place(place.spark, service.url, place.name, place.directory)
        with away.lead(ttl=60.0, timeout=3.0) as job:
            finish(job, away.start(job, job.exactlyOnce(publish)))
            assert job.published == 1
        over.set()
        back.join(60.0)


@pytest.mark.promise
def test_a_standby_takes_over_when_the_leader_leaves(place: Place, client: milepost.Client) -> None:
    leader = client.session("leader").store(place.name)
    leader.campaign()
    waiting = threading.Timer(0.5, leader.resign)
    waiting.start()
    with place.lead() as job:
        assert job.epoch == 2
    waiting.join()


def test_a_standby_whose_session_was_lost_begins_another(place: Place, client: milepost.Client) -> None:
    """The service knows its session no more: as after an outage that outlasted it."""
    leader = client.session("leader").store(place.name)
    leader.campaign()
    with ExitStack() as stack:

        def lose_it() -> None:
            campaign = StateHandleStore.campaign

            def once(store: StateHandleStore, wait: float | None = 30.0, **_: object) -> milepost.Epoch:
                patch.undo()
                assert store.session_id is not None
                client.session("impostor", session_id=store.session_id).close()
                leader.resign()
                return campaign(store, wait)

            patch.setattr(StateHandleStore, "campaign", once)

        patch = stack.enter_context(pytest.MonkeyPatch.context())
        lose_it()
        job = stack.enter_context(place.lead())
        assert job.epoch == 2


def test_sigterm_ends_a_driver_in_order(
    service: ServerProcess, java_options: str, name: str, tmp_path: Path, place: Place
) -> None:
    """One that leads publishes its batch and resigns, one that stands by just ends. No session is left."""

    def setup(which: str) -> Setup:
        return Setup(
            url=service.url,
            store=name,
            kind="aggregation",
            provider="hdfs",
            input=str(place.input),
            output=place.output,
            scratch=str(tmp_path / which),
            events=str(tmp_path / f"{which}.events"),
            java_options=java_options,
            ttl=60.0,
            available_now=False,
        )

    with Driver(setup("leader")) as leader:
        leader.wait_for("published")
        wait_until(lambda: sum(event["event"] == "published" for event in leader.events()) == 2)
        with Driver(setup("standby")) as standby:
            wait_until(lambda: "standing by" in standby.log.read_text())
            standby.terminate()
            assert standby.wait() == 128 + 15
        leader.terminate()
        finished = leader.wait_for("finished")
        assert (finished["published"], finished["stopped"]) == (1, True)
        assert leader.wait() == 128 + 15
    with place.lead(wait=30.0) as job:
        assert job.epoch == 2
        assert (job.recovery.resumes_at, job.recovery.replays) == (2, False)
    published = published_batches(place.spark, service.url, name)
    assert len(published) == len(KINDS["aggregation"].expected(2))
