"""A job after Spark's own offline repartition, which commits a batch that nobody published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import milepost
from milepost.errors import WrongCheckpoint
from tests.spark.jobs import Place, finish
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import KINDS, PROVIDERS

pytestmark = pytest.mark.spark

KIND = "aggregation"


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


def test_the_batch_of_a_repartition_is_named_and_a_roll_back_undoes_it(job: Place, client: milepost.Client) -> None:
    run(job)
    with job.lead() as led:
        job.spark._streamingCheckpointManager.repartition(led.checkpointLocation, 3)
    job.add_input(3)
    with pytest.raises(WrongCheckpoint, match=r"committed batch 2, but batch 1 .* Spark's offline repartition"):
        run(job)
    with client.session("operator") as session:
        store = session.store(job.name)
        store.campaign(60.0)
        (published,) = [snapshot for snapshot in store.files.snapshots().snapshots if snapshot.batch == 1]
        store.files.roll_back(published.revision)
        store.resign()
    run(job)
    expected = KINDS[KIND].expected_of([[end] for end in (0, 1, 2)])
    assert published_rows(job.url, job.name, Path(job.output)) == dict(enumerate(expected))
