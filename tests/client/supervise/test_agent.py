"""When a command gets the agent that writes rows down, and when not: then the log says why."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from milepost.supervise.agent import LISTENERS, jar, obstacle, option

PLACE = Path("/tmp/milepost-run-x")


def test_the_package_has_the_jar_and_the_jar_has_the_classes() -> None:
    name, content = jar()
    with zipfile.ZipFile(BytesIO(content)) as archive:
        assert "Premain-Class: io.milepost.run.RowsAgent" in archive.read("META-INF/MANIFEST.MF").decode()
        classes = {entry.filename for entry in archive.infolist()} - {"META-INF/MANIFEST.MF"}
    assert classes == {"io/milepost/run/RowsAgent.class", "io/milepost/run/RowsListener.class"}
    assert option(PLACE / name, PLACE / "rows") == f"-javaagent:{PLACE}/rows-agent.jar={PLACE}/rows"


def test_most_commands_get_it() -> None:
    for command in (["spark-submit", "--conf", "spark.driver.userClassPathFirst=false", "x.jar"], ["python", "x.py"]):
        assert obstacle(command, {}, PLACE) is None


def test_listeners_of_the_job_are_kept() -> None:
    why = obstacle(["spark-submit", "--conf", f"{LISTENERS}=mine.Listener", "x.jar"], {}, PLACE)
    assert why == f"the job has listeners of its own (--conf {LISTENERS}=mine.Listener)"
    assert obstacle(["python", "x.py"], {"JDK_JAVA_OPTIONS": f"-D{LISTENERS}=mine.Listener"}, PLACE) is not None


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
