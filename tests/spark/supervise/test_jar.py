"""A jar with no line of Milepost in it: killed in a batch, frozen and succeeded by a standby; its state stays exact.

It is started as docs/run.md, docs/spark.md and docs/clusters.md show it, with a Spark on this machine as the master.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.supervise.sums import ROWS, Sums
from tests.spark.supervise.supervised import Supervised, input_rows, names, on_the_page

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", ["docs/run.md", "docs/spark.md"])
def test_a_driver_that_is_killed_in_a_batch_is_started_again(
    service: ServerProcess, java_options: str, jar: Path, name: str, sums: Sums, tmp_path: Path, page: str
) -> None:
    words = on_the_page(service.url, name, sums.command(java_options, jar, 6, 100))
    if page == "docs/run.md":
        words["spark://master:7077"] = ["local[2]"]
    with Supervised.pasted(page, words, tmp_path / "log") as run:
        run.until(lambda: sums.entered(2))
        run.send_command(signal.SIGKILL)
        assert run.ended() == 0, run.log()[-6000:]
        assert [epoch for epoch, _ in run.starts()] == [1, 2]
    sums.check(6)
    assert names(service, f"{name}/checkpoint/queries") == ["distinct", "sums"]
    for query in ("distinct", "sums"):
        found = input_rows(service, name, f"checkpoint/queries/{query}", 6, killed=1)
        assert len(found) >= 6
        assert set(found) == {ROWS}


@pytest.mark.long
def test_a_driver_that_was_frozen_is_refused_and_ended(
    service: ServerProcess, java_options: str, jar: Path, name: str, sums: Sums, tmp_path: Path
) -> None:
    """The command thaws first, so that it meets the fence; then its supervisor, which ends what is left of it."""
    job = sums.command(java_options, jar, 12, 700)
    frozen = Supervised(service.url, name, tmp_path / "frozen", ["--ttl", "3", "--wait", "1"], job)
    words = on_the_page(service.url, name, job)
    del words["http://127.0.0.1:7070"]
    replicas = {"http://a:7070,http://b:7070,http://c:7070": [",".join([service.url] * 3)]}
    words |= replicas | {"spark://master:7077": ["local[2]"], "…": []}
    standby = Supervised.pasted("docs/clusters.md", words, tmp_path / "standby")
    with frozen:
        frozen.until(frozen.starts)
        with standby:
            standby.says("standing by")
            frozen.until(lambda: sums.entered(2))
            assert standby.starts() == []
            frozen.send(signal.SIGSTOP)
            frozen.send_command(signal.SIGSTOP)
            standby.until(standby.starts)
            last = max(sums.written("sums"))
            standby.until(lambda: max(sums.written("sums")) > last)
            frozen.send_command(signal.SIGCONT)
            frozen.says("AccessControlException")
            frozen.send(signal.SIGCONT)
            assert frozen.ended() == 125
            assert "is led by" in frozen.log()
            assert standby.ended() == 0, standby.log()[-6000:]
            assert [epoch for epoch, _ in frozen.starts() + standby.starts()] == [1, 2]
    sums.check(12)
