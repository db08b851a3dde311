"""When a command gets the agent, and when not: then the log says why."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from milepost.jvm import FILE_MANAGERS, NAME, content, path
from milepost.supervise.agent import LISTENERS, listeners, obstacle, option

PLACE = Path("/tmp/milepost-run-x")


def test_the_agent_is_in_the_jar() -> None:
    with zipfile.ZipFile(BytesIO(content())) as archive:
        assert "Premain-Class: io.milepost.run.Agent" in archive.read("META-INF/MANIFEST.MF").decode()
        classes = {entry.filename.removesuffix(".class").replace("/", ".") for entry in archive.infolist()}
    assert {"io.milepost.run.Agent", "io.milepost.run.RowsListener", *FILE_MANAGERS} < classes
    assert path().read_bytes() == content()
    assert option(PLACE / NAME, PLACE / "rows") == f"-javaagent:{PLACE}/milepost.jar={PLACE}/rows"
    assert option(PLACE / NAME, None) == f"-javaagent:{PLACE}/milepost.jar"


def test_most_commands_get_it() -> None:
    for command in (["spark-submit", "--conf", "spark.driver.userClassPathFirst=false", "x.jar"], ["python", "x.py"]):
        assert obstacle(command, {}, PLACE) is None


def test_listeners_of_the_job_are_found() -> None:
    command = ["spark-submit", "--conf", f"{LISTENERS}=mine.Listener", "x.jar"]
    assert listeners(command, {}) == f"--conf {LISTENERS}=mine.Listener"
    assert listeners(["python", "x.py"], {"JDK_JAVA_OPTIONS": f"-D{LISTENERS}=mine.Listener"}) is not None
    assert listeners(["python", "x.py"], {}) is None
    assert obstacle(command, {}, PLACE) is None


def test_a_job_that_may_bring_another_spark_gets_none() -> None:
    why = obstacle(["spark-submit", "--conf", "spark.driver.userClassPathFirst=True", "x.jar"], {}, PLACE)
    assert why is not None
    assert "a Spark of its own" in why


@pytest.mark.parametrize("directory", ["/tmp/a=b/c", "/tmp/né/c", "/tmp/a\nb"])
def test_a_path_from_which_java_would_start_no_agent(directory: str) -> None:
    why = obstacle(["spark-submit", "x.jar"], {}, Path(directory))
    assert why is not None
    assert "Java takes no agent" in why
    assert obstacle(["spark-submit", "x.jar"], {}, Path("/tmp/a b/'c\"#%20\\")) is None
