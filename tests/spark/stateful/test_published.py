"""What the driver keeps of the managed states of a job."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from milepost.errors import BatchTimeout, UnsafeQuery
from milepost.job_record import JobRecord
from milepost.spark.managed.published import ManagedState
from milepost.state.key_groups import KeyGroups
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.snapshot import Commits, Snapshot, first_snapshot
from milepost.state.processors.timers import TimeMode
from tests.spark.jobs import made_up


def commits(partitions: int) -> Commits:
    return tuple((1, secrets.token_hex(16)) for _ in range(partitions))


def staged(snapshot: Snapshot) -> Any:
    """What a batch would publish of a snapshot."""
    record: Any = SimpleNamespace(record=SimpleNamespace(state=None))
    state = ManagedState(record, cast(Any, None), {})
    state.enter(snapshot.batch)
    state.stage(snapshot.name, snapshot.to_json())
    return state.staged()


@pytest.mark.parametrize("how", ["given up", "a stop that fails"])
def test_however_a_job_ends_the_connections_of_its_states_are_closed(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    pointer: Any = SimpleNamespace(record=JobRecord("job", 1, 3), store=SimpleNamespace(epoch=1))
    job, closed = made_up(pointer), list[str]()
    monkeypatch.setattr(job.state, "close", lambda: closed.append(how))
    if how == "given up":
        job.fail(BatchTimeout("too long"))
        job.close()
    else:
        monkeypatch.setattr(job, "_stop", fail_to_stop)
        with pytest.raises(PySparkException, match="did not stop"):
            job.close()
    assert closed == [how]


def fail_to_stop() -> None:
    raise PySparkException("did not stop in time")


def test_where_divisions_change_too_often_for_the_record_fewer_kept_snapshots_make_room() -> None:
    key = GroupingKey([("word", "string")])
    snapshot = first_snapshot("state", 0, key, KeyGroups(128), commits(128), {}, TimeMode.NONE)
    for batch in range(1, 80):  # each of them with another number of partitions than the one before
        last = snapshot
        snapshot = last.after(batch, commits(127 + batch % 2), last.layout.number + 1, {}, 100, TimeMode.NONE)
    with pytest.raises(UnsafeQuery, match="keep fewer snapshots"):
        staged(snapshot)
    assert staged(last.after(80, commits(127), last.layout.number + 1, {}, 10, TimeMode.NONE))
