"""Settings that reach Spark by its environment, by options of Java, and by files."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.core.checkpoint_location import checkpoint_location
from milepost.supervise.checks import check
from milepost.supervise.handover import DEFAULT_LOCATION

LOCATION = checkpoint_location(["http://127.0.0.1:7070"], "flights", 7)
FENCE = "spark.hadoop.dfs.webhdfs.rest-csrf.enabled"
PAST = f"-D{FENCE}=false"
PATH = {"PATH": "/nowhere"}


def refusal(*command: str, **environment: str) -> str:
    """What the command is refused with."""
    with pytest.raises(ValueError, match=r".") as refused:
        check(command, {**PATH, **environment}, LOCATION)
    return str(refused.value)


@pytest.mark.parametrize(
    "variable",
    ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"],
)
def test_options_of_java_in_the_environment(variable: str) -> None:
    own = f"-Xmx1g -Dmy.own=1 '-D{DEFAULT_LOCATION}={LOCATION.url}/mine'"
    check(["spark-submit"], {**PATH, variable: own}, LOCATION)
    told = refusal("spark-submit", **{variable: f"-Xmx1g {PAST}"})
    assert told.startswith(f"{variable}: {PAST}: {FENCE} is set by")
    assert refusal("spark-submit", **{variable: f"'-D{DEFAULT_LOCATION}=s3a://else where'"}).startswith(variable)
    assert refusal("spark-submit", **{variable: f'"open {PAST}'}).startswith(variable)


@pytest.mark.parametrize(
    "options",
    [
        ("--driver-java-options", f"-Xmx1g {PAST}"),
        (f"--driver-java-options={PAST}",),
        ("--conf", f"spark.driver.extraJavaOptions=-Xmx1g {PAST}"),
        ("-c", f"spark.driver.defaultJavaOptions={PAST}"),
    ],
)
def test_options_of_java_on_the_command_line(options: tuple[str, ...]) -> None:
    assert f"{FENCE} is set by" in refusal("spark-submit", *options, "job.jar")
    check([option.replace(PAST, "-Dmy.own=1") for option in options], PATH, LOCATION)


def test_options_of_java_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "properties"
    file.write_text(f"spark.driver.extraJavaOptions = -Xmx1g {PAST}\n")
    assert refusal("spark-submit", "--properties-file", str(file)).startswith(f"{file}: {PAST}: {FENCE} is set by")


def test_files_of_options_of_java(tmp_path: Path) -> None:
    """Java's launcher reads them wherever they stand on its line. What a variable of Java names, ours comes after."""
    (tmp_path / "options").write_text(f"-Xmx1g\n# a comment\n{PAST}\n")
    named = f"@{tmp_path}/options"
    told = refusal("spark-submit", "--driver-java-options", named)
    assert told.startswith(f"--driver-java-options {named}: {PAST}: {FENCE} is set by")
    assert FENCE in refusal("spark-submit", SPARK_SUBMIT_OPTS=f"-Xmx1g {named}")
    check(["spark-submit", "--driver-java-options", f"@{tmp_path}/nothing @@x @"], PATH, LOCATION)
    check(["spark-submit"], {**PATH, "JDK_JAVA_OPTIONS": named}, LOCATION)


def test_arguments_of_pyspark(tmp_path: Path) -> None:
    def told(arguments: str) -> str:
        return refusal("python", "job.py", PYSPARK_SUBMIT_ARGS=f"--master 'local[2]' {arguments} pyspark-shell")

    check(["python", "job.py"], {**PATH, "PYSPARK_SUBMIT_ARGS": "--conf spark.a='b c' pyspark-shell"}, LOCATION)
    conf = f"--conf {DEFAULT_LOCATION}=s3a://elsewhere"
    assert told(conf).startswith(f"PYSPARK_SUBMIT_ARGS: {conf}: {DEFAULT_LOCATION} is set by")
    assert told("--deploy-mode cluster").startswith("PYSPARK_SUBMIT_ARGS: --deploy-mode cluster: the driver has to run")
    assert FENCE in told(f"--driver-java-options '-Xmx1g {PAST}'")
    (tmp_path / "properties").write_text(f"{FENCE}=false")
    assert told(f"--properties-file {tmp_path}/properties").startswith(f"{tmp_path}/properties: {FENCE}")


def test_the_mode_of_deployment_in_the_environment() -> None:
    assert refusal("spark-submit", DEPLOY_MODE="cluster").startswith("DEPLOY_MODE: the driver has to run here")
    check(["spark-submit"], {**PATH, "DEPLOY_MODE": "client"}, LOCATION)


@pytest.mark.parametrize(
    "line",
    [
        "spark.sql.streaming.check\\\n   pointLocation=file:/elsewhere",
        "spark.sql.streaming.checkpoint\\u004cocation=file:/elsewhere",
        f"{DEFAULT_LOCATION} \\\n file:/elsewhere",
        f"# \\\n{DEFAULT_LOCATION}=file:/elsewhere",
    ],
)
def test_files_are_read_as_java_reads_them(tmp_path: Path, line: str) -> None:
    file = tmp_path / "properties"
    file.write_text(line)
    assert refusal("spark-submit", "--properties-file", str(file)).startswith(f"{file}: {DEFAULT_LOCATION} is set by")


@pytest.mark.parametrize(
    "line",
    [
        f"{DEFAULT_LOCATION}={LOCATION.url}/mine".replace(":", "\\:"),
        f"# {FENCE}=false\rspark.app.name=x \\\n{FENCE}=false",
    ],
)
def test_files_that_keep_to_the_location(tmp_path: Path, line: str) -> None:
    (tmp_path / "properties").write_text(line)
    check(["spark-submit", "--properties-file", f"{tmp_path}/properties"], PATH, LOCATION)
    check(["spark-submit", "--properties-file", str(tmp_path)], PATH, LOCATION)


def test_defaults_that_another_file_replaces(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{FENCE} false\n")
    (tmp_path / "mine").write_text("spark.app.name=x\n")
    conf, mine = {"SPARK_CONF_DIR": str(tmp_path)}, ("--properties-file", f"{tmp_path}/mine")
    check(["/opt/spark/bin/spark-submit", *mine, "job.jar"], {**PATH, **conf}, LOCATION)
    check(["python3", "job.py"], {**PATH, **conf, "PYSPARK_SUBMIT_ARGS": f"{' '.join(mine)} pyspark-shell"}, LOCATION)
    assert FENCE in refusal("spark-submit", *mine, "--load-spark-defaults", "job.jar", **conf)
    assert FENCE in refusal("spark-submit", "job.jar", **conf, PYSPARK_SUBMIT_ARGS=" ".join(mine))
    assert FENCE in refusal("python3", "job.py", *mine, **conf)
