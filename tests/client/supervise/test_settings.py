"""Settings that reach Spark by its environment, by options of Java, and by files, and where these files are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.core.checkpoint_location import checkpoint_location
from milepost.supervise.handover import DEFAULT_LOCATION, check
from milepost.supervise.settings import defaults, parse

LOCATION = checkpoint_location(["http://127.0.0.1:7070"], "flights", 7)
FENCE = "spark.hadoop.dfs.webhdfs.rest-csrf.enabled"
PAST = f"-D{FENCE}=false"
PATH = {"PATH": "/nowhere"}
PACKAGE = "lib/python3.11/site-packages/pyspark"


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


@pytest.mark.parametrize(
    "line",
    [
        "spark.a=b c",
        "  spark.a : b c  ",
        "spark.a\t b c",
        "spark.a \\\n   b c",
        "spark.\\\n  a=b c",
        "spark.a=b \\\r\n\t c\r\n",
        "spark.\\u0061=b\\u0020c",
        "spark\\.a=b c",
        "# a comment\\\nspark.a=b c",
        "! another\rspark.a=b c\r",
        "\n \f\nspark.a=x\nspark.a=b c",
    ],
)
def test_one_property(line: str) -> None:
    assert parse(line) == {"spark.a": "b c"}


def test_what_java_stored() -> None:
    assert parse("a\\ b\\=c=webhdfs\\://h\\:1/x\\\\y\\t\\u00e9") == {"a b=c": "webhdfs://h:1/x\\y\té"}


def test_odd_ones() -> None:
    assert parse("") == parse("# only\n\n!comments") == {}
    assert parse("lonely\nempty=\n=nameless\nlast=x\\") == {"lonely": "", "empty": "", "": "nameless", "last": "x"}
    assert parse("a=1\\\\\nb=2") == {"a": "1\\", "b": "2"}
    assert parse("a=\\u12 b\u2028c=d") == {"a": "u12 b\u2028c=d"}


def program(path: Path) -> Path:
    """A program that could be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def spark(home: Path) -> Path:
    """A home of Spark whose defaults lead past the fence; returns their file."""
    program(home / "bin" / "spark-submit")
    file = home / "conf" / "spark-defaults.conf"
    file.parent.mkdir()
    file.write_text(f"{DEFAULT_LOCATION} s3a://elsewhere\n")
    return file


def python(prefix: Path) -> Path:
    """A Python with PySpark from pip; returns the defaults of that."""
    program(prefix / "bin" / "python3")
    (prefix / "bin" / "find_spark_home.py").touch()
    program(prefix / "bin" / "spark-submit")
    return spark(prefix / PACKAGE)


def refused(file: Path, *command: str, **environment: str) -> None:
    """The command is refused because of ``file``."""
    with pytest.raises(ValueError, match="is set by `milepost run`") as told:
        check(command, {"PATH": "/nowhere", **environment}, LOCATION)
    assert str(told.value).startswith(f"{file}: {DEFAULT_LOCATION}")


def test_the_home_of_a_script_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = spark(tmp_path / "spark")
    scripts = tmp_path / "spark" / "bin"
    refused(file, str(scripts / "spark-submit"), "job.jar")
    refused(file, "spark-submit", "job.jar", PATH=f"/nowhere:{scripts}")
    refused(file, "nice", "-n", "5", str(scripts / "spark-submit"), "job.jar")
    refused(file, str(program(tmp_path / "spark" / "sbin" / "start-connect-server.sh")))
    refused(file, "./script-of-the-users.sh", PATH=str(scripts))
    monkeypatch.chdir(tmp_path / "spark")
    refused(file, "bin/spark-submit")


def test_a_symbolic_link_to_a_script_of_spark(tmp_path: Path) -> None:
    file = spark(tmp_path / "spark-4.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").symlink_to(tmp_path / "spark-4.1" / "bin" / "spark-submit")
    refused(file, "spark-submit", PATH=str(tmp_path / "bin"))


def test_what_the_environment_names_goes_first(tmp_path: Path) -> None:
    spark(tmp_path / "spark")
    submit = str(tmp_path / "spark" / "bin" / "spark-submit")
    check([submit], {"SPARK_HOME": str(tmp_path)}, LOCATION)
    check([submit], {"SPARK_CONF_DIR": str(tmp_path)}, LOCATION)


def test_pyspark_of_a_python(tmp_path: Path) -> None:
    file = python(tmp_path / "env")
    refused(file, str(tmp_path / "env" / "bin" / "python3"), "job.py")
    refused(file, "env", "A=B", "python3", "job.py", PATH=str(tmp_path / "env" / "bin"))
    refused(file, str(program(tmp_path / "env" / "bin" / "script-of-a-package")))
    (tmp_path / "link").symlink_to(tmp_path / "env" / "bin" / "python3")
    refused(file, str(tmp_path / "link"), "job.py")


def test_scripts_of_pip_ask_the_python_that_they_would_run(tmp_path: Path) -> None:
    own, other = python(tmp_path / "own"), python(tmp_path / "other")
    submit, another = str(tmp_path / "own" / "bin" / "spark-submit"), str(tmp_path / "other" / "bin" / "python3")
    refused(own, submit)
    refused(other, submit, PYSPARK_PYTHON=another)
    refused(other, submit, PATH=str(tmp_path / "other" / "bin"))


def test_pyspark_on_the_path_of_python(tmp_path: Path) -> None:
    python(tmp_path / "env")
    file = spark(tmp_path / "spark")
    sources = tmp_path / "spark" / "python"
    (sources / "pyspark").mkdir(parents=True)
    refused(file, str(tmp_path / "env" / "bin" / "python3"), "job.py", PYTHONPATH=f"/nowhere:{sources}")


def test_there_may_be_no_spark_at_all(tmp_path: Path) -> None:
    bare = str(program(tmp_path / "env" / "bin" / "python3"))
    assert defaults([bare, "job.py"], {"PATH": "/nowhere"}) == []
    assert defaults([], {}) == defaults([""], {"PATH": ""}) == []
