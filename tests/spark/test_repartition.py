"""Spark's own offline repartition of a job's state: unknown to the job's drivers, and as a rescale of the job."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import milepost
from milepost.errors import NoSafeCheckpoint, UnsafeQuery, WrongCheckpoint
from milepost.job_record import JOB, decode
from milepost.restoring import restore
from milepost.spark import Job
from milepost.store import StateHandleStore
from tests.spark.jobs import Place, finish
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import KINDS, PROVIDERS

pytestmark = pytest.mark.spark

KIND = "aggregation"
_COMMAND_SECONDS = 240


@pytest.fixture
def job(place: Place) -> Iterator[Place]:
    """A job with two files of input, whose state Spark can divide anew."""
    place.add_input(2)
    for key, value in PROVIDERS["rocksdb"].items():
        place.spark.conf.set(key, value)
    yield place
    for key in PROVIDERS["rocksdb"]:
        place.spark.conf.unset(key)


def run(job: Place) -> None:
    """Lead the job to the end of its input."""
    with job.lead() as led:
        finish(led, job.start(led, led.files(job.output), KIND))


def acting(client: milepost.Client, job: Place, act: Callable[[StateHandleStore], object]) -> None:
    """Act on the job's store under an epoch of its own, as an operator does."""
    with client.session("operator") as session:
        store = session.store(job.name)
        store.campaign(60.0)
        act(store)
        store.resign()


def check_output(job: Place, *without: int) -> None:
    """Check the published rows: those of one file of input in each batch, except in the batches ``without`` input."""
    found = published_rows(job.url, job.name, Path(job.output))
    assert not found.keys() & set(without)
    expected = KINDS[KIND].expected_of([[end] for end in range(len(found))])
    assert [found[batch] for batch in sorted(found)] == expected


def test_the_batch_of_a_repartition_is_named_and_a_roll_back_undoes_it(job: Place, client: milepost.Client) -> None:
    run(job)
    with job.lead() as led:
        job.spark._streamingCheckpointManager.repartition(led.checkpointLocation, 3)
    job.add_input(3)
    with pytest.raises(WrongCheckpoint, match=r"committed batch 2, but batch 1 .* Spark's offline repartition"):
        run(job)
    with job.lead() as led, pytest.raises(WrongCheckpoint, match="batch 1 was published last"):
        led.rescale(5)
    (published,) = [each for each in client.store(job.name).files.snapshots().snapshots if each.batch == 1]
    acting(client, job, lambda store: store.files.roll_back(published.revision))
    run(job)
    expected = KINDS[KIND].expected_of([[end] for end in (0, 1, 2)])
    assert published_rows(job.url, job.name, Path(job.output)) == dict(enumerate(expected))


def test_a_rescaled_job_goes_on_and_a_restore_undoes_the_rescale(job: Place, client: milepost.Client) -> None:
    """The sums of the aggregation are right only if its state was divided, and not lost or doubled."""
    run(job)
    before = int(job.spark.conf.get("spark.sql.shuffle.partitions") or 0)
    with job.lead() as led:
        with pytest.raises(UnsafeQuery, match=f"has {before} partitions already"):
            led.rescale(before)
        made = led.rescale(before + 3)
        assert (made.partitions_before, made.partitions, made.batch) == (before, before + 3, 2)
        assert led.published == 2
        job.add_input(3)
        finish(led, job.start(led, led.files(job.output), KIND))
    check_output(job, 2)
    with job.lead() as led:
        assert [each.logged for each in led.recovery.conf] == [str(before + 3)]
    undo = made.undo
    assert undo is not None
    acting(client, job, lambda store: restore(store, undo))
    check_output(job)
    run(job)
    assert published_rows(job.url, job.name, Path(job.output)).keys() == {0, 1, 2}
    check_output(job)


def test_the_command_rescales_a_job_and_a_second_one_has_nothing_to_do(job: Place, client: milepost.Client) -> None:
    run(job)
    program = str(Path(sys.executable).with_name("milepost"))
    command = [program, "-u", job.url, "jobs", "rescale", job.name, "3", "--json"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["batch"] == 2
    (entry,) = [each for each in client.job_history(job.name) if each.kind == "rescaled"]
    assert (entry.batch, entry.partitions) == (2, 3)
    assert entry.previous_partitions == int(job.spark.conf.get("spark.sql.shuffle.partitions") or 0)
    again = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    assert (again.returncode, again.stdout) == (1, "")
    assert "has 3 partitions already" in again.stderr
    job.add_input(3)
    run(job)
    check_output(job, 2)


def announce(led: Job) -> None:
    """Note in the job record that a rescale begins, as its driver does before Spark's part."""
    led._pointer.publish(lambda record: record.rescaling(2, led.epoch))


def test_a_driver_that_dies_before_spark_commits_has_rescaled_nothing(job: Place, client: milepost.Client) -> None:
    """The death is played: Spark's repartition is refused its last write, and the driver ends there."""
    run(job)
    with job.lead() as led:
        announce(led)
        job.spark._streamingCheckpointManager.repartition(led.checkpointLocation, 3)
        led._tree.delete("commits/2")
    assert decode(client.store(job.name).read(JOB)).rescales_at == 2
    job.add_input(3)
    run(job)
    record = decode(client.store(job.name).read(JOB))
    assert (record.rescales_at, record.published) == (None, 2)
    assert published_rows(job.url, job.name, Path(job.output)).keys() == {0, 1, 2}
    check_output(job)
    halfway = client.store(job.name).files.snapshots().passed_over[-1].name
    with pytest.raises(NoSafeCheckpoint, match="in the middle of a rescale"):
        acting(client, job, lambda store: restore(store, halfway))


def test_a_driver_that_dies_after_spark_has_committed_has_rescaled_the_job(job: Place, client: milepost.Client) -> None:
    run(job)
    with job.lead() as led:
        announce(led)
        job.spark._streamingCheckpointManager.repartition(led.checkpointLocation, 3)
    job.add_input(3)
    run(job)
    record = decode(client.store(job.name).read(JOB))
    assert (record.rescales_at, record.published) == (None, 3)
    (entry,) = [each for each in client.job_history(job.name) if each.kind == "rescaled"]
    assert (entry.batch, entry.partitions, entry.epoch) == (2, 3, record.epoch), "the driver that took over ended it"
    check_output(job, 2)


def test_what_spark_refuses_to_divide_leaves_the_job_as_it_was(place: Place, client: milepost.Client) -> None:
    """Spark divides no state of the provider that keeps it in the JVM's memory."""
    place.add_input(2)
    run(place)
    before = client.store(place.name).files.snapshots().snapshots[-1].batch
    with place.lead() as led, pytest.raises(UnsafeQuery, match="the job is as it was"):
        led.rescale(3)
    assert client.store(place.name).files.snapshots().snapshots[-1].batch == before == 1
    place.add_input(3)
    run(place)
    check_output(place)
