"""Commands that are refused, because their job would write past the fence."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.core.checkpoint_location import checkpoint_location
from milepost.supervise.checks import check
from milepost.supervise.handover import DEFAULT_LOCATION
from milepost.types import FileCredential

URLS = ["http://127.0.0.1:7070"]
LOCATION = checkpoint_location(URLS, "flights", 7)
HEADER = "spark.hadoop.dfs.webhdfs.rest-csrf.custom-header"


def refusal(*command: str, **environment: str) -> str:
    """What the command is refused with."""
    with pytest.raises(ValueError, match=r".") as refused:
        check(command, environment, LOCATION)
    return str(refused.value)


@pytest.mark.parametrize(
    "command",
    [
        ("spark-submit", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2", "job.jar"),
        ("spark-submit", "--deploy-mode", "client", "--properties-file", "/nowhere/at-all", "job.jar"),
        ("spark-submit", f"--conf={DEFAULT_LOCATION}={LOCATION.url}/mine", "job.jar"),
        ("spark-submit", "-c", f"{DEFAULT_LOCATION}={LOCATION.url}", "job.jar"),
        ("spark-pipelines", "run", "--remote", "local"),
        ("python", "job.py", "--conf"),
    ],
)
def test_a_command_that_keeps_to_the_location_may_run(command: tuple[str, ...]) -> None:
    check(command, {}, LOCATION)


@pytest.mark.parametrize(
    "options", [("--deploy-mode", "cluster"), ("--deploy-mode=cluster",), ("--conf", "spark.submit.deployMode=cluster")]
)
def test_a_driver_elsewhere(options: tuple[str, ...]) -> None:
    assert "cluster: the driver has to run here" in refusal("spark-submit", *options, "job.jar")


def test_a_client_of_a_connect_server() -> None:
    assert "sc://127.0.0.1: the queries run in the Connect server" in refusal(
        "spark-submit", "--remote", "sc://127.0.0.1", "job.py"
    )
    assert refusal("python", "job.py", SPARK_REMOTE="sc://127.0.0.1").startswith("SPARK_REMOTE: the queries run")


def test_settings_of_the_fence_and_other_locations() -> None:
    told = refusal("spark-submit", "--conf", f"{DEFAULT_LOCATION}=s3a://elsewhere", "job.jar")
    assert told.startswith(f"--conf {DEFAULT_LOCATION}=s3a://elsewhere: {DEFAULT_LOCATION} is set by")
    assert HEADER in refusal("spark-submit", f"-c={HEADER}=X-Mine", "job.jar")
    assert DEFAULT_LOCATION in refusal("spark-submit", "-c", f"{DEFAULT_LOCATION}={LOCATION.url}x", "job.jar")


@pytest.mark.parametrize("line", ["{} s3a://elsewhere", "  {}=s3a://elsewhere", "{}\t:  s3a://elsewhere"])
def test_files_of_properties(tmp_path: Path, line: str) -> None:
    file = tmp_path / "conf" / "spark-defaults.conf"
    file.parent.mkdir()
    file.write_text(f"# {line.format(DEFAULT_LOCATION)}\nspark.master local\n\nlonely\n")
    check(["spark-submit"], {"SPARK_HOME": str(tmp_path)}, LOCATION)
    with file.open("a") as opened:
        opened.write(line.format(DEFAULT_LOCATION) + "\n")
    assert refusal("spark-submit", SPARK_HOME=str(tmp_path)).startswith(f"{file}: {DEFAULT_LOCATION}")
    assert refusal("spark-submit", SPARK_CONF_DIR=str(file.parent)).startswith(f"{file}: ")
    assert refusal("spark-submit", "--properties-file", str(file), "job.jar").startswith(f"{file}: ")


def test_name_services_of_the_job_stand_beside_that_of_the_service() -> None:
    urls = ["http://127.0.0.1:7070", "http://127.0.0.1:7071"]
    location = checkpoint_location(urls, "flights", 7)
    option = "spark.hadoop.dfs.nameservices="
    check(["spark-submit", "--conf", f"{option}theirs,milepost"], {}, location)
    with pytest.raises(ValueError, match="nameservices is set by"):
        check(["spark-submit", "--conf", f"{option}theirs"], {}, location)


@pytest.mark.parametrize("expression", ["(?i)secret", "(", "spark[.]hadoop[.]dfs", "^dfs[.]"])
def test_a_credential_that_spark_would_show(expression: str) -> None:
    """Where a job has one, what Spark hides may be set otherwise, but has to be more. Spark lists it twice, by two
    names.
    """
    location = checkpoint_location(URLS, "flights", 7, credential=FileCredential(7, "flights-7", "the-secret"))
    command = ["spark-submit", "--conf", f"spark.redaction.regex={expression}", "job.jar"]
    check(command, {}, LOCATION)
    with pytest.raises(ValueError, match=r"spark\.redaction\.regex must match spark\.hadoop\.dfs") as refused:
        check(command, {}, location)
    assert "the-secret" not in str(refused.value)
    assert "add '|credential' to it" in str(refused.value)
    check([*command[:2], "spark.redaction.regex=(?i)password|credential", "job.jar"], {}, location)
