"""A restore takes files, record, published output and state back together, and the next driver goes on exactly."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import milepost
from milepost.errors import NoSafeCheckpoint
from milepost.job_record import JOB, decode
from milepost.restoring import JobRestore, newest_of_batch, planned, restore
from milepost.spark import read_published
from tests.spark.jobs import Place
from tests.spark.output.test_files import rows, run
from tests.spark.stateful.test_stateful import counting
from tests.spark.stateful.test_stateful import published as counted
from tests.spark.stateful.test_stateful import run as run_stateful
from tests.spark.stateful.texts import write_texts
from tests.spark.trials.queries import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def go_back(client: milepost.Client, place: Place, snapshot: str) -> JobRestore:
    """Restore the job as an operator does, under an epoch of its own."""
    with client.session(holder="operator") as session:
        store = session.store(place.name)
        store.campaign(0.0)
        plan = restore(store, snapshot)
        store.resign()
    return plan


def of_batch(client: milepost.Client, place: Place, batch: int) -> str:
    return newest_of_batch(client.store(place.name).files.snapshots(), batch)


def read(place: Place) -> dict[int, list[tuple[int, int]]]:
    return rows(read_published(place.spark, place.url, place.name))


def directories(place: Place) -> set[str]:
    return {str(path.relative_to(place.output)) for path in Path(place.output).glob("batch=*/*")}


@pytest.mark.promise
def test_published_output_goes_back_and_on_and_each_restore_is_undone_by_another(
    place: Place, client: milepost.Client
) -> None:
    """The sums of the aggregation are right only if its state went back with the output."""
    expected = dict(enumerate(KINDS["aggregation"].expected(5)))
    place.add_input(4)
    run(place, "aggregation")
    first = directories(place)
    plan = planned(client.store(place.name), of_batch(client, place, 1))
    assert (plan.batch, plan.published, plan.published_before, plan.undo) == (1, 1, 3, None)
    assert read(place) == {batch: expected[batch] for batch in range(4)}

    made = go_back(client, place, of_batch(client, place, 1))
    assert read(place) == {batch: expected[batch] for batch in range(2)}
    assert directories(place) == first  # what counts no more is there for a restore

    place.add_input(5)
    run(place, "aggregation")
    assert read(place) == expected
    assert first < directories(place)
    second = client.store(place.name).files.snapshots().snapshots[-1].name

    assert made.undo is not None
    again = go_back(client, place, made.undo)
    assert (again.batch, again.published, again.published_before) == (3, 3, 4)
    frame = read_published(place.spark, place.url, place.name)
    assert rows(frame) == {batch: expected[batch] for batch in range(4)}
    assert {"/".join(Path(file).parts[-3:-1]) for file in frame.inputFiles()} <= first
    run(place, "aggregation")
    assert read(place) == expected

    there = go_back(client, place, second)  # the history that the undo has left
    assert (there.batch, there.published) == (4, 4)
    assert read(place) == expected
    with place.lead() as job:
        job.files(place.output)
        job.expire(before=4)
    record = decode(client.store(place.name).read(JOB))
    assert [each.published for each in record.abandoned] == [4]  # which has a batch 4 of its own
    assert {name.partition("/")[0] for name in directories(place)} == {"batch=4"}
    assert read(place) == {4: expected[4]}
    with pytest.raises(NoSafeCheckpoint, match="batches below 4 are expired"):
        planned(client.store(place.name), of_batch(client, place, 1))


def test_a_function_gets_back_what_it_returned_and_sinks_see_another_application(
    place: Place, client: milepost.Client
) -> None:
    seen: list[tuple[int, Any, str]] = []

    def publish(frame: DataFrame, context: milepost.spark.BatchContext) -> Any:
        seen.append((context.batchId, context.previous_manifest, context.txnAppId))
        return {"rows": frame.count(), "batch": context.batchId, "try": len(seen)}

    place.add_input(3)
    place.run(publish)
    made = go_back(client, place, of_batch(client, place, 0))
    assert "take it back there" in made.sink
    place.run(publish)
    assert [batch for batch, _, _ in seen] == [0, 1, 2, 1, 2]
    assert [previous and previous["try"] for _, previous, _ in seen] == [None, 1, 2, 1, 4]
    applications = [application for _, _, application in seen]
    assert len(set(applications[:3])) == len(set(applications[3:])) == 1
    assert applications[0] != applications[3]


def test_managed_state_goes_back(place: Place, client: milepost.Client) -> None:
    texts = write_texts(place.directory / "texts", 3, 20)
    run_stateful(place, counting(None))
    everything = counted(place)
    go_back(client, place, of_batch(client, place, 0))
    assert counted(place) == {0: dict(texts[0])}
    run_stateful(place, counting(None))
    assert counted(place) == everything
    assert everything[2] == {word: sum(texts, Counter[str]())[word] for word in texts[2]}


def test_a_job_that_publishes_nothing_through_milepost_goes_back_by_its_files_alone(
    place: Place, client: milepost.Client
) -> None:
    place.add_input(3)
    out: list[int] = []

    def see(frame: DataFrame, batch: int) -> None:
        frame.count()
        out.append(batch)

    def lead() -> None:
        with place.lead() as job:
            job.awaitTermination(place.start(job, see), 120)

    lead()
    made = go_back(client, place, of_batch(client, place, 0))
    assert (made.batch, made.published, made.output) == (0, -1, "job.files has published nothing")
    lead()
    assert out == [0, 1, 2, 1, 2]


def test_snapshots_of_a_release_that_kept_no_record_are_refused(place: Place, client: milepost.Client) -> None:
    place.add_input(3)
    run(place)
    with client.session(holder="operator") as session:
        store = session.store(place.name)
        store.campaign(0.0)
        store.files.delete("_milepost/record.json")
        batches = json.dumps({}).encode()
        store.files.write("checkpoint/commits/3", batches)
        store.resign()
    with pytest.raises(NoSafeCheckpoint, match="an older release took it"):
        planned(client.store(place.name), of_batch(client, place, 3))
