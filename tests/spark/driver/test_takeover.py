"""Losing the lead and giving it up: fenced, expired, the service away, SIGTERM."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import milepost
import milepost.spark
from milepost.errors import Fenced, SessionExpired, SessionLost
from milepost.spark import BatchContext, published_batches
from milepost.spark.checkpoints import restore
from milepost.spark.checkpoints.layer_index import LayerIndex
from milepost.spark.checkpoints.workdir import remove_older
from milepost.spark.record import JobCheckpoint
from milepost.spark.store import HandleStore
from milepost.store import StateHandleStore
from milepost.wire import Code
from testbed.server import ServerProcess
from tests.spark.jobs import Place, finish, wait_until
from tests.spark.trials.queries import KINDS, write_input
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
        write_input(place.directory / "more", 3)
        (place.directory / "more" / "00002.json").rename(place.input / "00002.json")
        with pytest.raises(Fenced):
            finish(job, query)
    assert published == [0, 1]


def test_a_driver_whose_directory_its_successor_cleared_away_is_fenced(place: Place, client: milepost.Client) -> None:
    """It stood still between its recovery and its first batch: Spark finds nothing, and begins at batch 0."""
    place.run(lambda *_: None)
    published: list[int] = []
    with place.lead() as job:
        succeed(client, place.name)
        remove_older(Path(job.checkpointLocation).parent, job.epoch + 1)
        with pytest.raises(Fenced):
            finish(job, place.start(job, job.exactlyOnce(lambda _, context: published.append(context.batchId))))
    assert published == []


@pytest.mark.parametrize("how", ["succeeded", "expired"])
def test_a_driver_that_loses_the_lead_while_it_restores_stands_by_again(
    place: Place, client: milepost.Client, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its successor clears away what it builds, or its session ends: nothing was begun that could not be again."""
    place.run(lambda *_: None)
    materialise = restore.materialise

    def meanwhile(store: HandleStore, checkpoint: JobCheckpoint, directory: Path) -> LayerIndex:
        monkeypatch.setattr(restore, "materialise", materialise)
        layer_index = materialise(store, checkpoint, directory)
        assert store.epoch is not None
        if how == "succeeded":
            succeed(client, place.name).resign()
            remove_older(directory.parent, store.epoch + 1)
            return layer_index
        drivers_session(client, place.name).close()
        raise SessionExpired(Code.SESSION_EXPIRED, "what the next call would be told")

    monkeypatch.setattr(restore, "materialise", meanwhile)
    with place.lead() as job:
        assert job.epoch == (4 if how == "succeeded" else 3)
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


def test_a_lost_session_stops_a_query_that_has_nothing_to_do(place: Place, client: milepost.Client) -> None:
    with place.lead(ttl=9.0) as job:
        query = place.start(job, job.exactlyOnce(lambda *_: None), forever=True)
        query.processAllAvailable()
        drivers_session(client, place.name).close()
        with pytest.raises(SessionLost):
            finish(job, query)
    assert not query.isActive


def test_an_outage_of_the_service_delays_a_batch_and_fails_none(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It lasts until a write was given up by the call that was to make it."""
    with ServerProcess(tmp_path / "service", "--log-level", "warning") as service:
        service.start()
        over = threading.Event()

        def come_back() -> None:
            wait_until(lambda: "write not settled yet" in caplog.text)
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

            def once(store: StateHandleStore, wait: float | None = 30.0) -> milepost.Epoch:
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
    """One that leads registers its final checkpoint and resigns, one that stands by just ends. No session is left."""

    def setup(which: str) -> Setup:
        return Setup(
            url=service.url,
            store=name,
            kind="aggregation",
            provider="hdfs",
            input=str(place.input),
            output=place.output,
            workdir=str(tmp_path / "work"),
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
        assert leader.wait_for("finished")["published"] == 1
        assert leader.wait() == 0
    with place.lead(wait=30.0) as job:
        assert job.epoch == 2
        assert job.recovery.checkpoint is not None
        assert job.recovery.checkpoint.resumes_at == 2
    published = published_batches(place.spark, service.url, name)
    assert len(published) == len(KINDS["aggregation"].expected(2))
