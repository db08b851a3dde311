"""What README.md, docs/spark.md, docs/kubernetes.md and docs/start/spark.md show of `milepost.spark.lead` works.

The example of docs/start/spark.md is started, killed and looked at by the lines of its page, and is exact.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.server import ServerProcess
from tests.docs.blocks import ROOT, Block, blocks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEADLINE_SECONDS = 150.0
EXAMPLE = ROOT / "examples" / "exactly_once.py"
SHOWN = [
    pytest.param(block, id=block.place)
    for page in ("README.md", "docs/spark.md", "docs/kubernetes.md")
    for block in blocks_of(ROOT / page)
    if block.language == "python" and "milepost.spark.lead(spark, " in block.text
]
LINES = [block.text for block in blocks_of(ROOT / "docs" / "start" / "spark.md") if block.language == "sh"]


@pytest.mark.parametrize("block", SHOWN)
def test_the_lines_work_for_a_frame_and_until_its_input_is_used_up(
    block: Block, service: ServerProcess, spark: SparkSession, name: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    spark.range(100).write.parquet(str(source))
    frame = spark.readStream.schema("id LONG").parquet(str(source))
    text = re.sub(r"http://milepost(-leader)?\.milepost:7070", "http://127.0.0.1:7070", block.text)
    if ".start()" not in text:  # docs/kubernetes.md shows the addresses alone, and the README has a query
        (readme, *_) = (block for block in blocks_of(ROOT / "README.md") if ".foreachBatch" in block.text)
        before, _, _ = text.rpartition("    ...\n")
        text = before + readme.text.partition("# standbys wait here\n")[2]
    for old, new in (
        ("http://127.0.0.1:7070", service.url),
        ('"flights"', repr(name)),
        ("/data/flights", str(tmp_path / "output")),
        (".start()", ".trigger(availableNow=True).start()"),
    ):
        assert old in text or old == "/data/flights"
        text = text.replace(old, new)
    given: dict[str, object] = {"spark": spark, "frame": frame, "token": None, "publish": lambda *_: None}
    exec(compile(text, block.place, "exec"), given)
    assert given["query"].lastProgress["numInputRows"] >= 0  # type: ignore[attr-defined]
    with closing(sqlite3.connect(":memory:")):  # the query has ended by itself, in order
        assert given["query"].exception() is None  # type: ignore[attr-defined]


def test_the_page_to_start_with_shows_the_example_as_it_is() -> None:
    shown = [block.text for block in blocks_of(ROOT / "docs" / "start" / "spark.md") if block.language == "python"]
    assert EXAMPLE.read_text() in shown


@contextmanager
def driver(script: str, variables: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A line of the page in a terminal's shell, which ends with the block, as does all that it has started."""
    with (
        log.open("wb") as file,
        subprocess.Popen(
            ["bash", "-euo", "pipefail"],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, **variables},
        ) as process,
    ):
        paste(process, script)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # nothing of it is left
                os.killpg(process.pid, signal.SIGKILL)


def paste(shell: subprocess.Popen[bytes], lines: str) -> None:
    assert shell.stdin is not None
    shell.stdin.write(lines.encode())
    shell.stdin.flush()


def batches(output: Path) -> list[tuple[int, int, int]]:
    if not output.exists():
        return []
    with closing(sqlite3.connect(output, timeout=30)) as db:
        if not db.execute("SELECT name FROM sqlite_master").fetchall():
            return []
        return db.execute("SELECT batch, rows, total FROM batches ORDER BY batch").fetchall()


def test_the_example_counts_each_row_once_though_its_driver_is_killed(
    service: ServerProcess, name: str, tmp_path: Path, java_options: str
) -> None:
    """By the page's lines, in two shells."""
    start, kill, look = LINES[1:]
    output, logs = tmp_path / "totals.db", [tmp_path / "first.log", tmp_path / "second.log"]
    arguments = f"--milepost {service.url} --job {name} --output {output}"
    program = "JAVA_HOME=$(tools/java-home) .venv/bin/python examples/exactly_once.py"
    assert start.startswith(f"{program} & ")
    script = start.replace(program, f"{program} {arguments}").replace(".venv/bin/python", shlex.quote(sys.executable))
    spark = f"--master local[2] --conf spark.ui.enabled=false --driver-java-options '{java_options}' pyspark-shell"
    variables = {"PYSPARK_SUBMIT_ARGS": spark, "SPARK_LOCAL_IP": "127.0.0.1"}

    def until(count: int) -> int:
        """Wait until there are more than ``count`` batches."""
        fail = time.monotonic() + DEADLINE_SECONDS
        while len(found := batches(output)) <= count:
            assert time.monotonic() < fail, "\n".join(log.read_text() for log in logs if log.exists())
            time.sleep(0.1)
        return len(found)

    with driver(script, variables, logs[0]) as first:
        reached = until(3)
        with driver(script, variables, logs[1]) as second:
            paste(first, f"{kill}wait $DRIVER\n")
            assert first.wait(DEADLINE_SECONDS) == 128 + signal.SIGKILL
            assert second.poll() is None
            until(reached + 2)
    found = batches(output)
    assert [batch for batch, _, _ in found] == list(range(len(found)))
    count, rows, total = map(int, re.findall(r"\d+", printed(look.replace("/tmp/exactly-once.db", str(output)))))
    assert (count, rows) == (len(found), sum(rows for _, rows, _ in found))
    assert rows > 0
    assert total == rows * (rows - 1) // 2  # the source counts from 0, so each value is there once
    assert "epoch 2: batch" in logs[1].read_text()


def printed(script: str) -> str:
    """What a line of the page prints."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
