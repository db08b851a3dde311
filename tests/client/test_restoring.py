"""Which snapshot a batch, a time or nothing names."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from milepost.errors import InvalidRequest, NotExist
from milepost.restoring import newest, newest_as_of, newest_of_batch
from milepost.types import KeptSnapshots, Savepoint, Snapshot


def at(minute: int) -> datetime:
    return datetime(2026, 11, 23, 9, minute, tzinfo=timezone.utc)


def taken(directory: str, batch: int, revision: int) -> Snapshot:
    return Snapshot(directory, batch, revision, taken=at(revision))


def test_the_snapshots_of_a_driver_are_those_of_its_checkpoint() -> None:
    passed = taken("checkpoint", 4, 14)
    kept = KeptSnapshots(
        [taken("checkpoint", 2, 10), taken("checkpoint", 3, 12), taken("other", 9, 15)],
        [Savepoint("monday", taken("checkpoint", 1, 5)), Savepoint("passed", passed)],
        [passed],
    )
    assert newest(kept) == "@12"
    assert newest_of_batch(kept, 1) == "@5"
    assert newest_as_of(kept, at(11)) == "@10"
    with pytest.raises(NotExist, match="milepost files snapshots lists what it has"):
        newest_of_batch(kept, 9)
    with pytest.raises(NotExist, match="a restore has passed over @14: name the one that you want"):
        newest_of_batch(kept, 4)
    with pytest.raises(NotExist, match="or before"):
        newest_as_of(kept, at(4))


def test_a_job_of_several_queries_has_the_snapshots_of_all() -> None:
    kept = KeptSnapshots([taken("checkpoint/queries/a", 2, 10), taken("checkpoint/queries/b", 2, 11)], [])
    assert newest(kept) == "@11"
    assert newest_as_of(kept, at(10)) == "@10"
    with pytest.raises(InvalidRequest, match="is one of each of checkpoint/queries/a, checkpoint/queries/b"):
        newest_of_batch(kept, 2)
    with pytest.raises(NotExist):
        newest(KeptSnapshots([], []))
