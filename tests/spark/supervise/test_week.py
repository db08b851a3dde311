"""The owner's week with a jar under ``milepost run``: as tests/spark/tour, by the commands of docs/jobs.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.jobs import wait_until
from tests.spark.supervise.sums import Sums
from tests.spark.supervise.supervised import Supervised
from tests.spark.tour.owner import Owner

pytestmark = [pytest.mark.spark, pytest.mark.long]

_ENDLESS = 100_000
_PAUSE_MS = 300


def test_the_week_of_a_jar(
    service: ServerProcess, java_options: str, jar: Path, name: str, sums: Sums, tmp_path: Path
) -> None:
    owner = Owner(service.url)
    copy = Sums(tmp_path / "clone")
    copy.directory.mkdir()

    def driver(which: str, of: Sums = sums, job: str = name, factor: int = 1) -> Supervised:
        command = of.command(java_options, jar, _ENDLESS, _PAUSE_MS, factor=factor)
        return Supervised(service.url, job, tmp_path / which, ["--standby", "--ttl", "60"], command)

    def goes_on(run: Supervised, of: Sums = sums, batches: int = 2) -> None:
        """Wait until some more batches are written."""
        last = max(of.written("sums"), default=-1)
        run.until(lambda: max(of.written("sums"), default=-1) >= last + batches)

    def stopped(run: Supervised) -> None:
        assert run.ended() == 128 + 15
        assert "Traceback" not in run.log()

    # Monday: the job runs, gets a savepoint, and is handed over to its standby.
    with driver("first") as first, driver("second") as second:
        first.until(lambda: first.starts() or second.starts())
        leads, waits = (first, second) if first.starts() else (second, first)
        goes_on(leads, batches=3)
        wait_until(lambda: owner.standbys(name) == 1)
        owner.does("savepoint", f"files savepoint {name} monday")
        owner.does("hand over", f"jobs hand-over {name}")
        stopped(leads)
        goes_on(waits)
        assert sums.wrong() == []
        owner.does("stop", f"jobs stop {name}")
        stopped(waits)

    # Tuesday: a bad release.
    owner.does("start", f"jobs start {name}")
    with driver("wrong", factor=3) as wrong:
        goes_on(wrong)
        assert sums.wrong()

        # Wednesday: back to Monday. The fix is tried on a clone.
        owner.does("go back", f"jobs stop {name}", f"jobs restore {name} monday")
        stopped(wrong)
    bad = sums.wrong()
    assert bad
    owner.does("clone", f"jobs clone {name} {name}-fix")
    with driver("fix", copy, f"{name}-fix") as fix:
        goes_on(fix, copy)
        owner.does("stop", f"jobs stop {name}-fix")
        stopped(fix)
    assert copy.wrong() == []
    assert sums.wrong() == bad

    # Thursday: the fix runs, and what the bad release had written is written anew. Its partitions stay.
    owner.does("start", f"jobs start {name}")
    with driver("fixed") as fixed:
        fixed.until(lambda: sums.wrong() == [])
        goes_on(fixed)
        owner.does("stop", f"jobs stop {name}")
        stopped(fixed)
    sums.check(max(batch for _, batch in bad))
    assert "milepost run" in owner.refused("jobs", "rescale", name, "7")

    # Friday: both go.
    owner.does("drop", f"jobs drop {name} --yes")
    owner.does("drop", f"jobs drop {name}-fix --yes")
    assert name not in owner.says("jobs", "ls")
    assert max(owner.commands.values()) <= 2
    told = [entry["kind"] for entry in owner.history(name)]
    acts = ["savepoint-made", "hand-over-requested", "stop-requested", "started", "stop-requested", "rolled-back"]
    acts += ["started", "stop-requested", "dropped"]
    assert [each for each in told if each in acts] == acts
