"""A clone of a job goes on from a snapshot with record and managed state, and publishes elsewhere."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import milepost
import milepost.spark
from milepost.cloning import JobClone, clone
from milepost.errors import UnsafeQuery
from milepost.job_record import JOB, decode
from milepost.restoring import newest, newest_of_batch, restore
from milepost.state.store import TreeFiles
from tests.spark.jobs import Place
from tests.spark.stateful.test_going_back import run_first
from tests.spark.stateful.test_stateful import counting, published, run
from tests.spark.stateful.texts import WORDS

pytestmark = pytest.mark.spark


def cloned(client: milepost.Client, source: str, name: str, snapshot: str) -> JobClone:
    """Clone a job as an operator does, under an epoch of the new job."""
    with client.session(holder="operator") as session:
        store = session.store(name)
        store.campaign(0.0)
        made = clone(store, client.store(source), snapshot, new_query_id=True)
        store.resign()
    return made


def test_clone_and_original_go_on_with_the_sums_that_each_has(place: Place, client: milepost.Client) -> None:
    """The clone is of the first of two batches, so the state that it goes on from is not the original's newest."""
    texts = run_first(place, 2)
    sums = [sum(texts[:count], Counter[str]()) for count in range(len(texts) + 1)]
    everything = {batch: {word: sums[batch + 1][word] for word in texts[batch]} for batch in range(3)}
    source, copy = client.store(place.name), replace(place, name=f"{place.name}-fix", directory=place.directory / "fix")
    before = decode(source.read(JOB))
    made = cloned(client, place.name, copy.name, newest_of_batch(source.files.snapshots(), 0))
    assert (made.batch, made.published) == (0, 0)
    assert decode(source.read(JOB)) == before

    def run_clone(output: Path) -> None:
        words = place.spark.readStream.option("maxFilesPerTrigger", 1).text(str(place.directory / "texts"))
        run(replace(copy, directory=output.parent), counting(None), words.selectExpr(WORDS))

    linked = place.directory / "linked"
    linked.mkdir()
    (linked / "out").symlink_to(place.output)
    for theirs in (Path(place.output), linked / "out"):
        with pytest.raises(UnsafeQuery, match=f"of the job '{place.name}', of which '{copy.name}' is a clone"):
            run_clone(theirs)
    assert published(copy) == {}
    run_clone(Path(copy.output))
    assert published(copy) == {1: everything[1], 2: everything[2]}
    assert published(place) == {0: everything[0], 1: everything[1]}
    run(place, counting(None))
    assert published(place) == everything
    with closing(TreeFiles(place.url, copy.name, None)) as files:
        reader = milepost.spark.state_reader(client.store(copy.name), files)
        assert {one.key[0]: one.value[0] for one in reader.entries()} == sums[3]

    (first,) = [each for each in client.store(copy.name).files.snapshots().snapshots if each.batch == 0]
    with client.session(holder="operator") as session:
        store = session.store(copy.name)
        store.campaign(0.0)
        restore(store, first.name)
        store.resign()
    assert published(copy) == {}
    run_clone(Path(copy.output))
    assert published(copy) == {1: everything[1], 2: everything[2]}
    second = cloned(client, copy.name, f"{copy.name}-2", newest(client.store(copy.name).files.snapshots()))
    assert (second.batch, second.published) == (2, 2)
    record = decode(client.store(second.job).read(JOB))
    assert record.origin is not None
    assert [name for name, _ in record.origin.lineage] == [copy.name, place.name]
    assert len({record.job, *(job for _, job in record.origin.lineage)}) == 3
