"""What cannot be made safe is refused, by name, before anything is published."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

import milepost.spark
from milepost.core.checkpoint_location import HEADER, checkpoint_location
from milepost.errors import EpochHeld, NoSafeCheckpoint, UnsafeQuery, WrongCheckpoint
from milepost.spark import BatchContext
from tests.spark.jobs import Place, finish, wait_until
from tests.spark.trials.queries import read_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def never(_frame: DataFrame, context: BatchContext) -> None:
    raise AssertionError(f"batch {context.batchId} must not be published")


def test_a_source_that_cleans_up(place: Place) -> None:
    with place.lead() as job:
        stream = place.spark.readStream.schema("k long, v long, t long").option("cleanSource", "delete")
        writer = stream.json(str(place.input)).writeStream.option("checkpointLocation", job.checkpointLocation)
        query = writer.foreachBatch(job.exactlyOnce(never)).start()
        with pytest.raises(UnsafeQuery, match="cleanSource=delete"):
            finish(job, query)


@pytest.mark.parametrize("location", ["another directory", "the default"])
def test_a_query_in_another_directory(place: Place, location: str) -> None:
    with place.lead() as job:
        writer = read_input(place.spark, str(place.input)).writeStream.foreachBatch(job.exactlyOnce(never))
        if location == "another directory":
            writer = writer.option("checkpointLocation", str(place.directory / "elsewhere"))
        query = writer.start()
        with pytest.raises(WrongCheckpoint, match=r"job\.checkpointLocation"):
            finish(job, query)


@pytest.mark.parametrize(
    ("emptied", "files", "committed", "complaint"),
    [
        ("", 2, True, "Spark runs batch 0, but batch 1 was published last"),
        ("", 1, True, "Spark runs batch 0, but batch 1 came next .* metadata differs"),
        ("offsets", 1, True, "Spark runs batch 0, but batch 1 came next"),
        ("offsets", 1, False, "Spark runs batch 0, but batch 0 came next .* offsets/0 differs"),
    ],
)
def test_a_query_whose_checkpoint_was_emptied(
    place: Place, emptied: str, files: int, committed: bool, complaint: str
) -> None:
    """In the right place, but not where the driver before it ended: Spark begins at batch 0 again.

    It reads all there is as that batch. Where batch 0 is published, and not counted for what it holds, that would be
    lost.
    """
    published: list[int] = []

    def publish(_frame: DataFrame, context: BatchContext) -> None:
        published.append(context.batchId)

    later = place.directory / "00001.json"
    if files == 1:
        (place.input / later.name).rename(later)
    place.run(publish) if committed else place.die_before_commit(publish, 0)
    if files == 1:
        later.rename(place.input / later.name)
    with place.lead() as job:
        for directory in (emptied,) if not emptied else ("offsets", "commits", "sources"):
            place.checkpoint().delete(f"{job.checkpointLocation}/{directory}".rstrip("/"))
        stream = place.spark.readStream.schema("k long, v long, t long").json(str(place.input))
        writer = stream.writeStream.option("checkpointLocation", job.checkpointLocation).trigger(availableNow=True)
        with pytest.raises(WrongCheckpoint, match=complaint):
            finish(job, writer.foreachBatch(job.exactlyOnce(publish)).start())
    assert published == [0, 1][:files]


@pytest.mark.promise
def test_a_checkpoint_that_was_emptied(place: Place) -> None:
    place.run(lambda *_: None)
    with place.lead() as job:
        place.checkpoint().delete(job.checkpointLocation)
    with pytest.raises(NoSafeCheckpoint, match=r"batch 1 was published last .* those of batch -1"), place.lead():
        pass


def test_a_checkpoint_in_which_a_query_ran_that_published_nothing(place: Place) -> None:
    """Any query may run there, and is fenced; but what it put out is not known to the job's record."""
    place.run(lambda *_: None)
    place.add_input(3)
    with place.lead() as job:
        finish(job, place.start(job, lambda *_: None))
    with place.lead() as job:
        assert (job.recovery.resumes_at, job.published) == (3, 1)
        with pytest.raises(WrongCheckpoint, match="committed batch 2, but batch 1 was published last"):
            job.files(place.output)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fs.webhdfs.impl.disable.cache", "false"),
        ("dfs.webhdfs.rest-csrf.methods-to-ignore", "GET,PUT"),
        (HEADER, "X-Requested-By"),
    ],
)
def test_settings_that_would_undo_the_fence(place: Place, client: milepost.Client, key: str, value: str) -> None:
    """Whoever is to stand by is told at once, not when it leads."""
    place.spark.conf.set(key, value)
    try:
        with pytest.raises(UnsafeQuery, match=f"{key} is set to '{value}'"), place.lead():
            pass
        assert place.spark.conf.get(key) == value
    finally:
        place.spark.conf.unset(key)
    shared: Any = place.spark.sparkContext._jsc.hadoopConfiguration()
    shared.set(key, value)
    try:
        with pytest.raises(UnsafeQuery, match=f"spark.hadoop.{key}"), place.lead():
            pass
    finally:
        shared.unset(key)
    assert client.store(place.name).current_epoch().epoch == 0


def test_such_settings_set_behind_our_back(place: Place) -> None:
    """Without a header of its own the service refuses the query; a cached file system only the driver can see."""
    key = "fs.webhdfs.impl.disable.cache"
    with place.lead() as job:
        location = job.checkpointLocation
        place.spark.conf.set(key, "false")
        query = place.start(job, job.exactlyOnce(never), checkpointLocation=location)
        with pytest.raises(UnsafeQuery, match=f"started with {key} set to 'false'"):
            finish(job, query)


def test_another_authority(place: Place) -> None:
    place.run(lambda *_: None)
    with pytest.raises(UnsafeQuery, match="cannot become 'milepost'"), place.lead(authority="milepost"):
        pass


def test_a_source_that_may_forget_is_reported(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A socket is such a source; files are none."""
    published: list[str] = []

    def publish(frame: DataFrame, _context: BatchContext) -> None:
        published.extend(row.value for row in frame.collect())

    place.run(lambda *_: None)
    assert "is not known to keep" not in caplog.text
    another = replace(place, name=f"{place.name}-socket")
    with socket.create_server(("127.0.0.1", 0)) as server, another.lead() as job:
        server.settimeout(60.0)
        source = place.spark.readStream.format("socket").options(host="127.0.0.1", port=server.getsockname()[1])
        writer = source.load().writeStream.option("checkpointLocation", job.checkpointLocation)
        query = writer.foreachBatch(job.exactlyOnce(publish)).start()
        with server.accept()[0] as connection:
            connection.sendall(b"line\n")
            wait_until(lambda: published == ["line"] or not query.isActive)
            query.stop()
        finish(job, query)
    assert published == ["line"]
    assert caplog.text.count("is not known to keep") == 1


def test_too_few_retained_batches(place: Place) -> None:
    key = "spark.sql.streaming.minBatchesToRetain"
    place.spark.conf.set(key, "1")
    try:
        with pytest.raises(UnsafeQuery, match="minBatchesToRetain is 1"), place.lead():
            pass
    finally:
        place.spark.conf.set(key, "3")


def test_too_few_retained_batches_set_behind_our_back(place: Place) -> None:
    key = "spark.sql.streaming.minBatchesToRetain"
    with place.lead() as job:
        place.spark.conf.set(key, "1")
        try:
            query = place.start(job, job.exactlyOnce(never))
        finally:
            place.spark.conf.set(key, "3")
        with pytest.raises(UnsafeQuery, match="minBatchesToRetain is 1"):
            finish(job, query)


def test_asynchronous_progress_tracking_keeps_sparks_own_error(place: Place) -> None:
    with place.lead() as job:
        function = job.exactlyOnce(never)
        with pytest.raises(IllegalArgumentException, match="does not support async progress tracking"):
            place.start(job, function, forever=True, asyncProgressTrackingEnabled="true")


def test_a_second_start_of_the_query(place: Place) -> None:
    published: list[int] = []
    with place.lead() as job:
        function = job.exactlyOnce(lambda _, context: published.append(context.batchId))
        finish(job, place.start(job, function))
        place.add_input(3)
        with pytest.raises(UnsafeQuery, match="one start of one query"):
            finish(job, place.start(job, function))
    assert published == [0, 1]


def test_a_second_query(place: Place) -> None:
    with place.lead() as job:
        job.exactlyOnce(never)
        with pytest.raises(UnsafeQuery, match="one query"):
            job.files(place.output)


def test_a_second_lead_of_the_same_job_in_the_same_application(place: Place) -> None:
    with place.lead(), pytest.raises(UnsafeQuery, match=r"leads .* already"), place.lead():
        pass


def test_two_jobs_whose_names_differ_in_case_only(place: Place) -> None:
    """The service takes the name from a header's name, and would let either write where the other one may."""
    other = replace(place, name=place.name.upper())
    with place.lead(), pytest.raises(UnsafeQuery, match="differ in more than case"), other.lead():
        pass
    with other.lead(), pytest.raises(UnsafeQuery, match="differ in more than case"), place.lead():
        pass


def test_a_standby_whose_wait_runs_out(place: Place, client: milepost.Client) -> None:
    store = client.session("somebody").store(place.name)
    store.campaign()
    with pytest.raises(EpochHeld) as held, place.lead(wait=0.5):
        pass
    assert held.value.holder == "somebody"


def test_a_function_that_no_query_calls(place: Place) -> None:
    with pytest.raises(UnsafeQuery, match="foreachBatch"), place.lead() as job:
        job.exactlyOnce(never)(place.spark.range(1), 0)


def test_a_query_of_another_session(place: Place) -> None:
    """Without the settings of this epoch the service refuses it, with them this driver."""
    with place.lead() as job:
        settings = checkpoint_location([place.url], place.name, job.epoch).settings
        session = place.spark.newSession()
        writer = read_input(session, str(place.input)).writeStream.option("checkpointLocation", place.location)
        writer = writer.foreachBatch(job.exactlyOnce(never))
        with pytest.raises(Py4JJavaError, match="AccessControlException"):
            writer.start()
        for key, value in settings.items():
            session.conf.set(key, value)
        with pytest.raises(UnsafeQuery, match="another SparkSession"):
            finish(job, writer.start())


def test_a_session_of_spark_connect() -> None:
    """A real one needs a server and packages of its own; what tells it apart is that it has no JVM session."""
    connect: Any = object()
    with (
        pytest.raises(UnsafeQuery, match="Spark Connect"),
        milepost.spark.lead(connect, "http://127.0.0.1:9", "job"),
    ):
        pass


def test_a_session_that_is_stopped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As PySpark leaves it; to stop the real one would cost the other tests theirs."""
    monkeypatch.setattr(place.spark.sparkContext, "_jsc", None)
    with pytest.raises(UnsafeQuery, match="session is stopped"), place.lead():
        pass


@pytest.mark.parametrize("value", [object(), "x" * 100_000])
def test_a_manifest_that_the_record_cannot_hold(place: Place, value: object) -> None:
    with place.lead() as job, pytest.raises(UnsafeQuery, match="job record"):
        finish(job, place.start(job, job.exactlyOnce(lambda *_: value)))
    with place.lead() as job:
        assert job.published == -1
