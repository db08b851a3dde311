"""The agent in a real JVM: built from its sources, quiet in one without Spark, and never in the way of one with it."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from milepost.jvm import FILE_MANAGER
from milepost.supervise.agent import LISTENERS, option
from testbed.server import ServerProcess
from tests.spark.supervise.jars import java
from tests.spark.supervise.supervised import Supervised, spark_home
from tools.jvm.jar import JAR, NoCompiler, build

pytestmark = pytest.mark.spark

QUERY = str(uuid.uuid4())
BATCHES = ["0", "100", "addBatch", "1", "7", "latestOffset", "1", "0", "addBatch"]
MEGABYTE = 1 << 20
OURS = "listener io.milepost.run.RowsListener\nmanager io.milepost.spark.FileManager\n"
OWN = "listener Heard\nmanager Mine\nheard of batch 0\nheard of batch 1\nheard of batch 1\n"


def heard(classes: Path, rows: Path, options: Sequence[str] = (), jar: Path = JAR) -> str:
    """What a JVM with Spark prints that hears of the `BATCHES`, with the agent appending to the file ``rows``."""
    command = [java(), *options, option(jar, rows), "-cp", f"{classes}:{spark_home()}/jars/*", "Heard", QUERY, *BATCHES]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert ended.stderr == ""
    return ended.stdout


def test_the_jar_is_what_its_sources_make(tmp_path: Path) -> None:
    try:
        build(tmp_path / "jar")
    except NoCompiler as error:
        pytest.skip(str(error))
    assert (tmp_path / "jar").read_bytes() == JAR.read_bytes(), "run `make jar` after a change of client/jvm"


def test_a_line_is_written_for_each_batch_that_ran(classes: Path, tmp_path: Path) -> None:
    """The jar of the first JVM has a name of odd characters."""
    rows, jar = tmp_path / "ro ws", tmp_path / "a 'b\"c#%20.jar"
    jar.write_bytes(JAR.read_bytes())
    assert heard(classes, rows, jar=jar) == OURS
    assert heard(classes, rows) == OURS
    assert rows.read_text() == f"{QUERY}\t0\t100\n{QUERY}\t1\t0\n" * 2


def test_a_file_that_cannot_take_lines_loses_them_and_nothing_else(classes: Path, tmp_path: Path) -> None:
    assert heard(classes, tmp_path / "gone" / "rows") == OURS
    (full := tmp_path / "full").write_bytes(b"\n" * MEGABYTE)
    assert heard(classes, full) == OURS
    assert full.stat().st_size == MEGABYTE
    assert heard(classes, Path("/dev/full")) == OURS


def test_classes_of_the_job_are_kept(classes: Path, tmp_path: Path) -> None:
    own = [f"-D{LISTENERS}=Heard", f"-D{FILE_MANAGER}=Mine"]
    assert heard(classes, tmp_path / "rows", own) == OWN
    assert not (tmp_path / "rows").exists()


def test_a_program_without_spark_notices_nothing(
    service: ServerProcess, classes: Path, name: str, tmp_path: Path
) -> None:
    command = [java(), "-cp", str(classes), "Plain", "it runs"]
    (place := tmp_path / "a 'b\\c#%20").mkdir()
    with Supervised(service.url, name, tmp_path / "log", [], command, TMPDIR=str(place), LC_ALL="C") as run:
        assert run.ended() == 0
    lines = [line for line in run.log().splitlines() if " milepost run: " not in line]
    assert len(lines) == 2, lines
    assert lines[0].startswith(f'NOTE: Picked up JDK_JAVA_OPTIONS: "@{place}/milepost-run-')
    assert lines[1] == "it runs null"
    assert list(place.iterdir()) == []
