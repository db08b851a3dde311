"""A cut of the trials: two runs that between them have both ways in, one server and several, a
forwarder and a host's name before them, and all sorts of faults.

``make test-spark-full`` plays 300 rounds of them. Its lines in docs/trials.md go on where they were cut.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks_of
from tests.docs.checkout import variables
from tests.spark.supervise.jars import compile_into, jar_of
from tests.spark.trials.__main__ import CACHE, SOURCES
from tests.spark.trials.plan import (
    EXECUTOR,
    EXECUTORS,
    FORWARDER,
    FREEZE,
    KILL,
    LEAD,
    LEADER,
    NAME,
    PYTHON,
    RUN,
    TERMINATE,
    Plan,
    Round,
)
from tests.spark.trials.run import Parts, Run
from tools.jvm.jar import NoCompiler

pytestmark = [pytest.mark.spark, pytest.mark.long]

_SPREAD = Plan(
    seed=1,
    kind="transform",
    provider="rocksdb-v2",
    source="rate",
    way=LEAD,
    executors=2,
    replicas=1,
    address=NAME,
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
    address=FORWARDER,
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


@pytest.mark.parametrize("plan", [_SPREAD, _SUPERVISED], ids=str)
def test_whatever_is_hit_the_job_goes_on_and_nothing_is_lost_doubled_or_written_late(plan: Plan, parts: Parts) -> None:
    run = Run(plan, parts)
    try:
        result = run.play()
    finally:
        print(f"{plan}: files in {run.hidden}", *run.times, sep="\n")
    assert result.epochs >= 2
    assert result.rows > 0
    logs = [log.read_text(errors="replace") for log in parts.directory.glob("cluster/*/work/app-*/*/stderr")]
    assert any("/jars/milepost.jar" in log for log in logs), "executors get the file manager"
    print(result)


def test_the_lines_of_the_page_go_on_where_they_were_cut(tmp_path: Path) -> None:
    """All runs that they ask for are in the file of results, so none is left to play: they count what there is."""
    (block,) = (block for block in blocks_of(ROOT / "docs" / "trials.md") if block.language == "sh")
    played = [json.loads(line) for line in (ROOT / "docs" / "trials-1.jsonl").read_text().splitlines()]
    well = next(line for line in played if line["verdict"] == "ok")
    others = [{**well, "seed": seed} for seed in (*range(1, 61), *range(1000, 1010))]
    results = tmp_path / "results"
    results.write_text("".join(f"{json.dumps(line)}\n" for line in [*others, *played]))
    before = results.read_bytes()
    told = []
    for line in block.text.splitlines():
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=ROOT,
            env=variables(ARGS=f"--results {results} --directory {tmp_path}"),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        told += re.findall(r"^(\d+ of \d+ runs: \d+ rounds), \d+ rows, none lost or doubled", ran.stdout, re.MULTILINE)
    assert told == ["60 of 60 runs: 300 rounds", "10 of 10 runs: 50 rounds", "1 of 1 runs: 5 rounds"]
    assert results.read_bytes() == before
