"""Milepost's manager of checkpoint files in a real Spark: one request for a small file, Spark's own way for others."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

import milepost
from milepost.jvm import FILE_MANAGER, FILE_MANAGERS
from milepost.spark import BatchContext
from testbed.server import ServerProcess
from tests.spark.guarantees.gate import Gate, gate
from tests.spark.jobs import Place
from tests.spark.tls import TOKEN, token_flags
from tests.support.network.gateway import Fault, Request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

STREAMING = "org.apache.spark.sql.execution.streaming"
SPARKS = f"{STREAMING}.checkpointing.FileContextBasedCheckpointFileManager"
STANDBY = '{"RemoteException":{"exception":"StandbyException"}}'
SMALL, LARGE = b"v1\n{}", bytes(range(256)) * 300


@pytest.fixture
def between(service: ServerProcess) -> Iterator[Gate]:
    """A gateway before the service, which notes each request."""
    with gate(service.url) as made:
        yield made


@dataclass(frozen=True)
class Files:
    """The files of a led job as Spark's queries write them."""

    spark: SparkSession
    location: str
    between: Gate

    def manager(self, location: str = "") -> Any:
        """Return the manager that Spark makes for a location."""
        conf = self.spark._jsparkSession.sessionState().newHadoopConf()
        jvm: Any = self.spark._jvm
        package = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        return package.CheckpointFileManager.create(self.path("", location), conf)

    def path(self, name: str, location: str = "") -> Any:
        """Return the Hadoop path of a file."""
        jvm: Any = self.spark._jvm
        return jvm.org.apache.hadoop.fs.Path(f"{location or self.location}/{name}".rstrip("/"))

    def write(self, name: str, content: bytes, *, overwrite: bool = False) -> list[str]:
        """Write a file, and return the operations that it took."""
        manager, before = self.manager(), len(self.between.requests)
        stream = manager.createAtomic(self.path(name), overwrite)
        stream.write(bytearray(content))
        stream.close()
        return [operation(request) for request in self.between.requests[before:]]


def operation(request: Request) -> str:
    """Return the operation of a request of WebHDFS, and the path of any other."""
    return request.target.partition("?op=")[2].partition("&token=")[0].partition("&")[0] or request.target


def whole(request: Request) -> bool:
    """Whether a request puts a whole file."""
    return "&data=true&" in request.target


@pytest.fixture
def led(place: Place, between: Gate) -> Iterator[Files]:
    """The files of a job that is led through the gateway."""
    there = replace(place, url=between.url)
    with there.lead() as job:
        location = f"{job.checkpointLocation}/offsets"
        files = Files(place.spark, location, between)
        manager = files.manager()
        assert manager.getClass().getName() in FILE_MANAGERS
        manager.mkdirs(files.path(""))
        yield files


@pytest.fixture
def stored(client: milepost.Client, name: str) -> milepost.JobFiles:
    """The job's files as the service has them."""
    return client.store(name).files


def test_a_small_file_takes_one_request(led: Files, stored: milepost.JobFiles) -> None:
    for number, content in enumerate((SMALL, b"", LARGE[: 64 * 1024])):
        assert led.write(str(number), content) == ["CREATE"]
        assert stored.read(f"checkpoint/offsets/{number}") == content


def test_a_file_that_exists_is_replaced_only_on_demand(led: Files, stored: milepost.JobFiles) -> None:
    led.write("1", SMALL)
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        led.write("1", b"another")
    assert stored.read("checkpoint/offsets/1") == SMALL
    assert led.write("1", b"another", overwrite=True) == ["CREATE"]
    assert stored.read("checkpoint/offsets/1") == b"another"


def test_a_cancelled_file_is_not_there(led: Files, stored: milepost.JobFiles) -> None:
    manager, before = led.manager(), len(led.between.requests)
    stream = manager.createAtomic(led.path("1"), False)
    stream.write(bytearray(SMALL))
    stream.cancel()
    stream.close()
    assert len(led.between.requests) == before
    large = manager.createAtomic(led.path("2"), False)
    large.write(bytearray(LARGE))
    large.cancel()
    assert [file.path for file in stored.list("checkpoint/offsets")] == []


def test_a_large_file_goes_spark_s_way(led: Files, stored: milepost.JobFiles) -> None:
    done = led.write("large.zip", LARGE)
    assert done.count("RENAME") == 1
    assert stored.read("checkpoint/offsets/large.zip") == LARGE


def test_a_name_that_needs_an_escape_goes_spark_s_way(led: Files, stored: milepost.JobFiles) -> None:
    assert "RENAME" in led.write("zähler %20", SMALL)
    assert stored.read("checkpoint/offsets/zähler %20") == SMALL


def test_no_directory_is_made(led: Files) -> None:
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        led.write("gone/1", SMALL)


def test_a_deposed_driver_is_refused(
    place: Place, between: Gate, client: milepost.Client, stored: milepost.JobFiles
) -> None:
    with replace(place, url=between.url).lead() as job:
        files = Files(place.spark, job.checkpointLocation, between)
        manager = files.manager()
        manager.mkdirs(files.path(""))
    client.session("another").store(place.name).campaign()
    stream = manager.createAtomic(files.path("1"), False)
    stream.write(bytearray(SMALL))
    with pytest.raises(Py4JJavaError, match="AccessControlException"):
        stream.close()
    assert list(stored.list("checkpoint")) == []


def test_a_lost_answer_is_asked_for_again(led: Files, stored: milepost.JobFiles) -> None:
    """What was done and not answered is done once: all requests have one key. Java itself repeats the first of them."""
    led.between(Fault(whole, times=3, lose_answer=True))
    assert led.write("1", SMALL) == ["CREATE"] * 4
    asked = [
        request.target.partition("&key=")[2].split("&attempt=") for request in led.between.requests if whole(request)
    ]
    assert len({key for key, _ in asked}) == 1
    assert [int(attempt) for _, attempt in asked] == [1, 1, 2, 2]
    assert stored.read("checkpoint/offsets/1") == SMALL


def test_with_tokens_it_takes_one_request_as_well(place: Place, tmp_path: Path) -> None:
    """Whoever was deposed is refused as by Hadoop's client, which would ask on and on if its token were."""
    with ServerProcess(tmp_path, *token_flags(tmp_path)) as server, gate(server.start().url) as between:
        with replace(place, url=between.url).lead(token=TOKEN) as job:
            files = Files(place.spark, f"{job.checkpointLocation}/offsets", between)
            manager = files.manager()
            manager.mkdirs(files.path(""))
            assert files.write("1", SMALL)[-1] == "CREATE"
            assert sum(map(whole, between.requests)) == 1
            assert "RENAME" not in map(operation, between.requests)
        with milepost.Client(server.url, token=TOKEN) as client, client.session("another") as session:
            session.store(place.name).campaign()
            stream = manager.createAtomic(files.path("2"), False)
            with pytest.raises(Py4JJavaError, match="AccessControlException"):
                stream.close()


def test_a_file_whose_outcome_stays_unknown_is_named(led: Files) -> None:
    """An interrupted thread waits no longer, as after two minutes. In the JVM it is that of the calls made here."""
    stream = led.manager().createAtomic(led.path("1"), False)
    stream.write(bytearray(SMALL))
    led.between(Fault(whole, lose_answer=True))
    jvm: Any = led.spark._jvm
    jvm.java.lang.Thread.currentThread().interrupt()
    try:
        with pytest.raises(Py4JJavaError, match="offsets/1: the outcome is unknown") as unknown:
            stream.close()
    finally:
        jvm.java.lang.Thread.interrupted()
    assert unknown.value.java_exception.getCause() is not None


def test_a_proxy_that_answers_in_its_place_is_not_believed(led: Files, stored: milepost.JobFiles) -> None:
    led.between(Fault(whole, times=2, in_its_place=(502, "bad gateway")))
    assert led.write("1", SMALL) == ["CREATE"] * 3
    assert stored.read("checkpoint/offsets/1") == SMALL


def test_a_proxy_that_says_that_the_file_is_there_is_not_believed(led: Files, stored: milepost.JobFiles) -> None:
    led.between(Fault(whole, times=1, answer=(201, "")))
    assert led.write("1", SMALL) == ["CREATE"] * 2
    assert stored.read("checkpoint/offsets/1") == SMALL


@pytest.mark.parametrize("status", [200, 302, 404])
def test_a_proxy_does_not_know_what_became_of_an_earlier_attempt(
    led: Files, stored: milepost.JobFiles, status: int
) -> None:
    """Spark's manager would find the file there, and take it for that of another query. Java repeats the first one."""
    led.between(Fault(whole, times=2, lose_answer=True), Fault(whole, times=1, answer=(status, "a page")))
    assert led.write("1", SMALL) == ["CREATE"] * 4
    assert stored.read("checkpoint/offsets/1") == SMALL


@pytest.mark.parametrize("answer", [(307, ""), (403, STANDBY), (400, "")])
def test_what_was_refused_goes_spark_s_way(led: Files, stored: milepost.JobFiles, answer: tuple[int, str]) -> None:
    """A service that does not know the request answers 307."""
    led.between(Fault(whole, times=1, answer=answer))
    assert led.write("1", SMALL).count("RENAME") == 1
    assert stored.read("checkpoint/offsets/1") == SMALL


def test_other_file_systems_are_left_to_spark(led: Files, tmp_path: Path) -> None:
    here = f"file:{tmp_path / 'checkpoint'}"
    manager, path = led.manager(here), led.path("1", here)
    before = len(led.between.requests)
    manager.mkdirs(led.path("", here))
    stream = manager.createAtomic(path, False)
    stream.write(bytearray(SMALL))
    stream.close()
    assert (tmp_path / "checkpoint" / "1").read_bytes() == SMALL
    assert [status.getPath().getName() for status in manager.list(led.path("", here))] == ["1"]
    assert manager.isLocal()
    assert len(led.between.requests) == before


@contextmanager
def setting(spark: SparkSession, value: str) -> Iterator[None]:
    spark.conf.set(FILE_MANAGER, value)
    try:
        yield
    finally:
        spark.conf.unset(FILE_MANAGER)


def test_a_query_renames_nothing(place: Place, between: Gate) -> None:
    there = replace(place, url=between.url)
    there.run(_publish, "aggregation")
    assert "RENAME" not in map(operation, between.requests)
    assert sum(map(whole, between.requests)) > 4
    assert place.spark.conf.get(FILE_MANAGER, None) is None


def test_a_manager_of_the_session_stays(place: Place, between: Gate) -> None:
    with setting(place.spark, SPARKS):
        replace(place, url=between.url).run(_publish)
        assert place.spark.conf.get(FILE_MANAGER) == SPARKS
    assert "RENAME" in map(operation, between.requests)
    assert not any(map(whole, between.requests))


def test_without_the_jar_spark_writes_alone(
    place: Place, between: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A JVM that takes no further classes, as in a notebook's own: here it is asked for a class that no jar has."""
    monkeypatch.setattr("milepost.spark.file_manager.FILE_MANAGERS", (f"io.milepost.Gone{uuid.uuid4().hex}",))
    with caplog.at_level("INFO", "milepost.spark.file_manager"):
        replace(place, url=between.url).run(_publish)
    assert "Spark's own manager writes the checkpoints" in caplog.text
    assert not any(map(whole, between.requests))


def _publish(frame: DataFrame, batch: BatchContext) -> None:
    frame.collect()
    del batch
