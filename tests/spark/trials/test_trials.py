"""A cut of the trials: two runs that between them have both ways in, one server and several, and all sorts of faults.

``make test-spark-full`` plays 300 rounds of them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.supervise.jars import NoCompiler, compile_into, jar_of
from tests.spark.trials.__main__ import CACHE, SOURCES
from tests.spark.trials.plan import (
    EXECUTOR,
    EXECUTORS,
    FREEZE,
    KILL,
    LEAD,
    LEADER,
    PYTHON,
    RUN,
    TERMINATE,
    Plan,
    Round,
)
from tests.spark.trials.run import Parts, Run

pytestmark = [pytest.mark.spark, pytest.mark.long]

_SPREAD = Plan(
    seed=1,
    kind="transform",
    provider="rocksdb-v2",
    source="rate",
    way=LEAD,
    executors=2,
    replicas=1,
    rounds=(Round(KILL, EXECUTOR, 0.7), Round(FREEZE, EXECUTORS, 1.0)),
)
_SUPERVISED = Plan(
    seed=2,
    kind="deduplication",
    provider="hdfs",
    source="files",
    way=RUN,
    executors=2,
    replicas=3,
    rounds=(Round(KILL, LEADER, 0.5, 3.0), Round(TERMINATE, PYTHON, 0.2)),
)


@pytest.fixture(scope="module")
def parts(java_options: str) -> Iterator[Parts]:
    """A place that executors see, for whom /tmp is empty."""
    CACHE.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="trials-", dir=CACHE))
    (directory / "classes").mkdir()
    try:
        compile_into(directory / "classes", SOURCES)
    except NoCompiler as error:
        pytest.skip(str(error))
    with Parts(directory, java_options, jar_of(directory / "classes", directory / "trial")) as started:
        yield started
    shutil.rmtree(directory)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("plan", [_SPREAD, _SUPERVISED], ids=str)
def test_whatever_is_hit_the_job_goes_on_and_nothing_is_lost_doubled_or_written_late(plan: Plan, parts: Parts) -> None:
    run = Run(plan, parts)
    try:
        result = run.play()
    finally:
        print(f"{plan}: files in {run.hidden}", *run.times, sep="\n")
    assert result.epochs >= 2
    assert result.rows > 0
    print(result)
