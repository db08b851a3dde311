"""Where Spark's own file of defaults is found, with trees of files as installations leave them."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.core.checkpoint_location import checkpoint_location
from milepost.supervise.checks import check
from milepost.supervise.handover import DEFAULT_LOCATION
from milepost.supervise.spark_home import defaults

LOCATION = checkpoint_location(["http://127.0.0.1:7070"], "flights", 7)
PACKAGE = "lib/python3.11/site-packages/pyspark"


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
