"""Ten kinds of harm to a job, each done as people do it, and each taken back by one command of the command line.

After each, the job goes on, and source, state, output and sink are exact. docs/harm.md has the table.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from py4j.protocol import Py4JJavaError

import milepost
import milepost.spark
from milepost.errors import BatchesGone, CheckpointDamaged, EpochHeld, InputMissing, NoSafeCheckpoint, UnsafeQuery
from milepost.spark.sinks.jdbc import JdbcTable
from milepost.state.errors import InvalidUse
from testbed.maven import jars
from testbed.postgresql import PostgresqlServer
from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.spark.damaging import blob_of
from tests.spark.jobs import Place, dying_in
from tests.spark.tour.harmed import KIND, Counts, CountTwice, Sums
from tests.spark.tour.owner import Owner, running
from tests.spark.trials.queries import PROVIDERS, write_input

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A service that keeps every file as a blob, so that one can be lost."""
    with ServerProcess(tmp_path_factory.mktemp("service"), *ALL_AS_BLOBS) as server:
        yield server.start()


@pytest.fixture
def job(place: Place) -> Iterator[Sums]:
    """A job with two files of input."""
    for key, value in PROVIDERS["rocksdb"].items():
        place.spark.conf.set(key, value)
    yield Sums(place.spark, place.url, place.name, place.directory)
    for key in PROVIDERS["rocksdb"]:
        place.spark.conf.unset(key)


@pytest.fixture
def owner(service: ServerProcess) -> Owner:
    return Owner(service.url)


def command_in(text: str) -> list[str]:
    """The command that a text names, without ``milepost``."""
    found = re.search(r"milepost (jobs (?:restore|start) \S+(?: --batch \d+| [\w@]+)?)", text)
    assert found, text
    return found[1].split()


def test_wrong_code_wrote_wrong_sums(job: Sums, owner: Owner) -> None:
    job.to_the_end()
    job.add_input(4)
    right = dict(enumerate(KIND.expected(4)))
    with running(job, lambda led: job.release(led, wrong=True, forever=True), 3):
        assert {batch for batch, rows in job.published().items() if rows != right[batch]} == {2, 3}

        owner.says("jobs", "restore", job.name, "--batch", "1", "--stop")
    job.check(2)
    owner.says("jobs", "start", job.name)  # with the right release
    job.to_the_end()
    job.check(4)


def test_a_release_wrote_state_that_the_one_before_cannot_read(place: Place, owner: Owner) -> None:
    job = Counts(place.spark, place.url, place.name, place.directory)
    job.add_texts(2)
    job.to_the_end()
    job.add_texts(3)
    job.to_the_end(CountTwice)
    job.add_texts(4)
    with pytest.raises(InvalidUse, match=r"count was 'long' and cannot become 'integer'.*milepost jobs restore"):
        job.to_the_end()

    owner.says("jobs", "restore", job.name, "--batch", "1")
    job.to_the_end()
    job.check(4)


def test_a_release_published_a_column_of_another_type(job: Sums, owner: Owner) -> None:
    job.to_the_end()
    job.add_input(3)
    job.to_the_end(output="k, CAST(w AS decimal(20,0)) AS w")
    job.add_input(4)
    with pytest.raises(UnsafeQuery, match=r"column w was published as decimal.*milepost jobs restore"):
        job.to_the_end()

    owner.says("jobs", "restore", job.name, "--batch", "1")
    job.to_the_end()
    job.check(4)


def test_the_source_was_deleted_and_made_anew(job: Sums, owner: Owner) -> None:
    """Under other names, while a batch over its newest file had begun."""
    job.to_the_end()
    job.add_input(3)
    with dying_in(2):
        job.to_the_end()
    shutil.rmtree(job.input)
    write_input(job.input, 4)
    (job.input / "00002.json").rename(job.input / "00002-again.json")
    with pytest.raises(InputMissing, match=r"batch 2 must be run again.*00002\.json") as refused:
        job.to_the_end()

    owner.says(*command_in(str(refused.value)))
    job.to_the_end()
    job.check(4)
    assert job.read_files() == ["00000.json", "00001.json", "00002-again.json", "00003.json"]


def test_a_file_of_the_published_output_was_deleted(job: Sums, owner: Owner) -> None:
    job.add_input(3)
    job.to_the_end()
    next(Path(job.output).glob("batch=1/*/part-*")).unlink()
    with pytest.raises(Py4JJavaError, match=r"FAILED_READ_FILE.*batch=1/"):
        job.published()
    with pytest.raises(BatchesGone) as gone:
        milepost.spark.read_published(job.spark, job.url, job.name, batches=range(3))

    owner.says(*command_in(str(gone.value)))
    job.to_the_end()
    job.check(3)


def test_blobs_of_the_state_were_lost(job: Sums, owner: Owner, service: ServerProcess) -> None:
    """Of more batches than a driver goes back by itself."""
    job.add_input(4)
    job.to_the_end()
    for batch in (2, 3):
        blob_of(service, job.name, f"checkpoint/state/0/0/{batch + 1}.zip").unlink()
    with pytest.raises(CheckpointDamaged) as damaged:
        job.to_the_end()
    assert damaged.value.damaged == ("checkpoint/state/0/0/3.zip", "checkpoint/state/0/0/4.zip")

    owner.says(*command_in(str(damaged.value)))
    job.to_the_end()
    job.check(4)


def test_a_foreign_hand_deleted_the_checkpoint(job: Sums, owner: Owner) -> None:
    """Not without the epoch, which the owner's own script takes."""
    job.to_the_end()
    address = f"{job.url}/webhdfs/v1/jobs/{job.name}/checkpoint"
    answer = httpx.delete(address, params={"op": "DELETE", "recursive": "true"}, timeout=60.0)
    assert (answer.status_code, answer.json()["RemoteException"]["exception"]) == (403, "AccessControlException")
    with milepost.Client(job.url) as client, client.session(holder="script") as session:
        store = session.store(job.name)
        store.campaign(30.0)
        store.files.delete("checkpoint", recursive=True)
    job.add_input(3)
    with pytest.raises(NoSafeCheckpoint) as refused:
        job.to_the_end()

    owner.says(*command_in(str(refused.value)))
    job.to_the_end()
    job.check(3)


def test_the_files_alone_were_rolled_back(job: Sums, owner: Owner) -> None:
    """By a program; the command line refuses that."""
    job.add_input(3)
    job.to_the_end()
    first = job.snapshot(0)
    assert "milepost jobs restore" in owner.refused("files", "roll-back", job.name, str(first.revision))
    with milepost.Client(job.url) as client, client.session(holder="script") as session:
        store = session.store(job.name)
        store.campaign(30.0)
        store.files.roll_back(first.revision)
    with pytest.raises(NoSafeCheckpoint) as refused:
        job.to_the_end()

    owner.says(*command_in(str(refused.value)))
    job.to_the_end()
    job.check(3)


def test_the_state_was_rescaled_to_a_wrong_number(job: Sums, owner: Owner) -> None:
    """The code's own setting changes nothing, and says so; a rescale to 5 does."""
    job.to_the_end()
    with job.lead() as led:
        wrong = led.rescale(5)
    job.add_input(3)
    assert [(each.logged, each.session) for each in job.to_the_end().recovery.conf] == [("5", "2")]

    owner.says("jobs", "restore", job.name, wrong.undo or "")
    assert job.to_the_end().recovery.conf == ()
    job.check(3)


def test_a_restore_went_to_the_wrong_point(job: Sums, owner: Owner) -> None:
    job.add_input(3)
    job.to_the_end()
    said = owner.says("jobs", "restore", job.name, "--batch", "0")
    assert sorted(job.published()) == [0]

    owner.says(*command_in(said))
    job.check(3)
    job.add_input(4)
    job.to_the_end()
    job.check(4)


def test_a_job_was_stopped_by_mistake(job: Sums, owner: Owner) -> None:
    job.to_the_end()
    job.add_input(3)
    owner.says("jobs", "stop", job.name, "--reason", "wrong job")
    assert "wrong job" in owner.says("jobs", "show", job.name)
    with (
        milepost.Client(job.url) as client,
        client.session(holder="driver") as session,
        pytest.raises(EpochHeld, match="was stopped by") as held,
    ):
        session.store(job.name).campaign(0.0)

    owner.says(*command_in(str(held.value)))
    job.to_the_end()
    job.check(3)


def test_wrong_rows_came_into_a_table(job: Sums, owner: Owner, database: PostgresqlServer) -> None:
    (jar,) = jars("postgresql").glob("*.jar")
    job.spark.sql(f"ADD JAR '{jar}'")
    schema = job.name.replace("-", "_")
    database.query(f"CREATE SCHEMA {schema}")

    def sink() -> JdbcTable:
        return JdbcTable(database.url, f"{schema}.t", properties=database.properties, batch_column="batch")

    def rows() -> list[tuple[int, ...]]:
        return [tuple(map(int, row)) for row in database.query(f"SELECT batch, k, w FROM {schema}.t ORDER BY 1, 2")]

    right = [(batch, k, w) for batch, of in enumerate(KIND.expected(4)) for k, w in of]
    job.to_the_end(sink=sink())
    job.add_input(4)
    job.to_the_end(sink=sink(), wrong=True)
    assert [row for row in rows() if row[0] < 2] == [row for row in right if row[0] < 2]
    assert rows() != right

    owner.says("jobs", "restore", job.name, "--batch", "1")
    job.to_the_end(sink=sink())
    assert rows() == right
    job.check_source_and_state(4)
