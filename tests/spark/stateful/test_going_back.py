"""Files of a job that were rolled back or cloned by hand, while its record with the managed state stays as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import milepost
from milepost.errors import NoSafeCheckpoint, WrongCheckpoint
from milepost.types import Snapshot
from tests.spark.jobs import Place
from tests.spark.stateful.test_stateful import counting, published, run
from tests.spark.stateful.texts import write_texts
from tests.spark.test_restore import go_back, of_batch

pytestmark = pytest.mark.spark


def run_first(place: Place, count: int) -> list[Counter[str]]:
    """Count the words of so many texts, with the state in the job's tree; one more is there after that."""
    texts = write_texts(place.directory / "texts", count + 1, 20)
    last = max((place.directory / "texts").iterdir())
    aside = last.rename(place.directory / last.name)
    run(place, counting(None))
    aside.rename(last)
    return texts


def snapshots(client: milepost.Client, place: Place) -> list[Snapshot]:
    return client.store(place.name).files.snapshots().snapshots


def roll_back(client: milepost.Client, place: Place, snapshot: Snapshot, *keep: str) -> None:
    """Do it as an operator does, under an epoch of its own."""
    with client.session("operator") as session:
        store = session.store(place.name)
        store.campaign(0.0)
        store.files.roll_back(snapshot.revision, keep=keep)
        store.resign()


def test_a_clone_is_refused_and_a_rollback_to_the_newest_cut_takes_the_state_along(
    place: Place, client: milepost.Client, tmp_path: Path
) -> None:
    texts = run_first(place, 1)
    (snapshot,) = snapshots(client, place)
    clone = replace(place, name=f"{place.name}-clone", directory=tmp_path / "clone")
    write_texts(clone.directory / "texts", 2, 20)
    with client.session("operator") as session:
        store = session.store(clone.name)
        store.campaign(0.0)
        store.files.clone(place.name, f"@{snapshot.revision}")
        store.resign()
    with pytest.raises(WrongCheckpoint, match=r"committed batch 0, but batch -1 .* a clone of a job's files"):
        run(clone, counting(None))
    roll_back(client, place, snapshot)
    run(place, counting(None))
    assert published(place)[1] == {word: (texts[0] + texts[1])[word] for word in texts[1]}


def test_a_rollback_behind_the_record_is_refused(place: Place, client: milepost.Client) -> None:
    """First the state alone goes back, as it does with a rollback to the snapshot of another query in the same tree.

    The restore that the error names takes the record back as well.
    """
    texts = run_first(place, 2)
    first = snapshots(client, place)[0]
    roll_back(client, place, first, "checkpoint")
    with pytest.raises(NoSafeCheckpoint, match=r"published with batch 1, .* of the partitions \[0, 1\].* or later"):
        run(place, counting(None))
    assert sorted(published(place)) == [0, 1]
    roll_back(client, place, first)
    with pytest.raises(
        NoSafeCheckpoint,
        match=rf"batch 1 was published last .* rolled back .*milepost jobs restore {place.name} --batch 0 ",
    ):
        run(place, counting(None))
    assert sorted(published(place)) == [0, 1]
    go_back(client, place, of_batch(client, place, 0))
    run(place, counting(None))
    assert published(place)[2] == {word: sum(texts, Counter[str]())[word] for word in texts[2]}
