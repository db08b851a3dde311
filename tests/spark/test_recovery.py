"""Where a driver goes on: what Spark's logs and the job record say together, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.core.lease import Lease, keep
from milepost.errors import Fenced, NoProgress, NoSafeCheckpoint, WrongCheckpoint
from milepost.job_record import JobRecord
from milepost.spark.recovery import (
    ConfDifference,
    JobRecovery,
    check_published,
    check_standstill,
    conf_differences,
    recover,
)
from milepost.wire import Code
from tests.client.core.world import NO_LEADER, World
from tests.spark.logs import Logs, left


def found(logs: Logs, published: int, **record: Any) -> JobRecovery:
    known = JobRecord("job", 1, published, **record)
    return recover(logs, known, 7, job="flights", setting=lambda _: None, modified_ms=lambda _: 0)


def test_a_job_that_begins() -> None:
    assert found(Logs(), -1) == JobRecovery(epoch=7, resumes_at=0)


@pytest.mark.parametrize(
    ("logged", "committed", "published", "resumes_at", "replays"),
    [
        (0, -1, -1, 0, True),  # died inside batch 0
        (0, -1, 0, 0, True),  # died between its publication and Spark's commit
        (0, 0, 0, 1, False),  # ended in order
        (9, 8, 8, 9, True),
        (9, 8, 9, 9, True),
        (9, 9, 9, 10, False),
    ],
)
def test_a_driver_goes_on_where_sparks_logs_end(
    logged: int, committed: int, published: int, resumes_at: int, replays: bool
) -> None:
    recovery = found(left(logged, committed), published)
    assert (recovery.resumes_at, recovery.replays, recovery.query) == (resumes_at, replays, "4b3e")
    assert (recovery.offsets is not None) is replays
    check_published(recovery, published)


@pytest.mark.parametrize(
    ("logs", "record", "back"),
    [
        (Logs(), {"published": 0}, 0),  # emptied
        (Logs(), {"published": -1, "entered": 0, "entries": 1}, None),
        (left(3, 3), {"published": 5}, 3),
        (left(3, 3), {"published": 4}, 3),  # Spark would log the offsets of batch 4 once more
        (left(3, 3), {"published": 3, "entered": 4, "entries": 1}, 3),
        (left(3, 2), {"published": 4}, 2),
        (left(3, 3), {"published": 4, "entered": 5, "entries": 1}, 3),
        (left(5, 3), {"published": 4}, 3),  # a commit is missing
        (left(3, 4), {"published": 3}, 3),
    ],
)
def test_a_checkpoint_behind_the_record_is_not_gone_on_from(
    logs: Logs, record: dict[str, Any], back: int | None
) -> None:
    """The error names the command that takes the job back as a whole, if there is a batch to go back to."""
    with pytest.raises(NoSafeCheckpoint) as refused:
        found(logs, **record)
    assert (f"milepost jobs restore flights --batch {back} " in str(refused.value)) is (back is not None)


@pytest.mark.parametrize(("logged", "committed", "published"), [(0, 0, -1), (5, 5, 4), (6, 5, 4)])
def test_batches_that_nobody_published_are_named(logged: int, committed: int, published: int) -> None:
    """A query without `job.files` and `job.exactlyOnce` may run; one with them may not follow it."""
    recovery = found(left(logged, committed), published)
    with pytest.raises(
        WrongCheckpoint, match=f"committed batch {committed}, but batch {published} was published last"
    ) as refused:
        check_published(recovery, published)
    said = str(refused.value)
    for cause in ("Spark's offline repartition", "job.exactlyOnce", "a clone"):  # it is not known which of them it was
        assert cause in said
    assert f"back to a snapshot of batch {published} (milepost files snapshots" in said


@pytest.mark.parametrize(
    ("published", "noted", "entries"),
    [
        (3, {}, 1),  # the driver that logged batch 4 noted nothing
        (3, {"entered": 4, "entries": 3}, 3),
        (3, {"entered": 3, "entries": 2}, 1),
        (4, {}, 0),
        (4, {"entered": 4, "entries": 2}, 2),  # drivers that died while they evaluated it once more
    ],
)
def test_drivers_that_began_a_batch_are_counted(published: int, noted: dict[str, int], entries: int) -> None:
    assert found(left(4, 3), published, **noted).entries == entries


def test_temporary_names_are_no_batches() -> None:
    logs = left(1, 1)
    logs.put("offsets/.2.8f1c.tmp", "v1")
    logs.put("offsets/.1.crc", "")
    assert found(logs, 1).resumes_at == 2


def test_settings_in_the_log_are_compared() -> None:
    recovery = recover(
        left(0, 0),
        JobRecord("job", 1, 0),
        1,
        job="flights",
        setting={"k": "now"}.get,
        modified_ms=lambda _: pytest.fail("no input"),
    )
    assert recovery.conf == (ConfDifference("k", "logged", "now"),)


def test_settings_that_the_log_holds_otherwise_are_found() -> None:
    offsets = b'v1\n{"batchWatermarkMs":0,"conf":{"b":"same","a":"logged","c":"x"}}\n{"logOffset":0}'
    session = {"a": "now", "b": "same"}
    assert conf_differences(offsets, session.get) == [ConfDifference("a", "logged", "now")]


@pytest.mark.parametrize("offsets", [b"", b"v1", b"v1\nnonsense", b"v1\n[]", b"v1\n{}"])
def test_logs_without_settings_differ_in_none(offsets: bytes) -> None:
    assert conf_differences(offsets, lambda _: "anything") == []


@pytest.mark.parametrize("content", ["", "{}", "[]", "\x00"])
def test_a_file_that_is_not_sparks(content: str) -> None:
    logs = left(0, 0)
    logs.put("metadata", content)
    with pytest.raises(WrongCheckpoint, match="metadata"):
        found(logs, 0)


class LateWorld(World):
    """A world in which each sleep takes ``late`` seconds more than was asked for."""

    def __init__(self, late: float) -> None:
        super().__init__(*[NO_LEADER] * 1000)
        self._late = late

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds + self._late)


def kept_in(world: World) -> Any:
    """A session that was kept until it was lost, as a job sees it."""
    lease = Lease("s1", 15.0, world.now, lambda: world.now)
    world.run(keep(world.caller, lease))
    return lease


@pytest.mark.parametrize(
    ("entries", "most", "late", "ends"),
    [
        (3, 100, 24.0, True),
        (1, 1, 24.0, True),
        (2, 100, 24.0, False),
        (3, None, 24.0, False),
        (3, 100, 0.0, False),  # lost in an outage
    ],
)
def test_a_driver_that_stood_still_in_a_batch_that_is_begun_again_and_again_ends_by_that(
    entries: int, most: int | None, late: float, ends: bool
) -> None:
    record = JobRecord("job", 1, 3, entered=4, entries=entries)
    fenced = Fenced(Code.FENCED)
    if not ends:
        check_standstill(record, kept_in(LateWorld(late)), most, fenced)
        return
    with pytest.raises(NoProgress) as raised:
        check_standstill(record, kept_in(LateWorld(late)), most, fenced)
    assert raised.value.__cause__ is fenced
    said = str(raised.value)
    assert said.startswith(f"batch 4 was begun {entries} times and never finished, and this driver (ttl 15 s) stood")
    assert "stood still for 24.0 s" in said
    assert said.endswith("a ttl of at least 48 s")


def test_a_driver_that_is_fenced_while_its_session_lives_did_not_lose_it_by_a_standstill() -> None:
    world = World()
    lease: Any = Lease("s1", 15.0, world.now, lambda: world.now)
    keeping = keep(world.caller, lease)
    next(keeping)
    world.now += 9.0
    assert lease.stood_still == 8.0
    check_standstill(JobRecord("job", 1, 3, entered=4, entries=3), lease, 100, Fenced(Code.FENCED))
