"""What a command finds in its environment, which commands are refused, and the files that only this user may read."""

from __future__ import annotations

import os
import re
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.core.checkpoint_location import checkpoint_location
from milepost.supervise.handover import (
    DEFAULT_LOCATION,
    NAME_SERVICES,
    REDACTION,
    SECRET,
    PrivateFiles,
    check,
    environment,
    options,
    properties,
)
from milepost.types import FileCredential

LOCATION = replace(
    checkpoint_location(["http://127.0.0.1:7070"], "flights", 7),
    settings={"dfs.x": 'with "quotes" and \\', "dfs.y": "1"},
)
URLS = ["http://127.0.0.1:7070"]
OURS = checkpoint_location(URLS, "flights", 7)
HEADER = "spark.hadoop.dfs.webhdfs.rest-csrf.custom-header"


def test_the_location_is_in_variables_and_the_settings_in_a_file() -> None:
    given = environment({"PATH": "/bin"}, LOCATION, "flights", 7, Path("/somewhere/epoch-7"))
    assert given == {
        "PATH": "/bin",
        "JDK_JAVA_OPTIONS": '"@/somewhere/epoch-7"',
        "MILEPOST_CHECKPOINT_LOCATION": LOCATION.url,
        "MILEPOST_JOB": "flights",
        "MILEPOST_EPOCH": "7",
        "SPARK_NO_DAEMONIZE": "1",
    }
    assert options(LOCATION, {}).splitlines() == [
        '"-Dspark.hadoop.dfs.x=with \\"quotes\\" and \\\\"',
        '"-Dspark.hadoop.dfs.y=1"',
        f'"-Dspark.sql.streaming.checkpointLocation={LOCATION.url}/queries"',
    ]
    agent = options(LOCATION, {}, '-javaagent:/a "b"/x.jar=/a "b"/rows').splitlines()
    assert agent[3:] == ['"-javaagent:/a \\"b\\"/x.jar=/a \\"b\\"/rows"']


def test_options_that_the_user_gave_to_java_stay() -> None:
    given = environment({"JDK_JAVA_OPTIONS": "-Xmx1g"}, LOCATION, "flights", 7, Path("/somewhere/epoch-7"))
    assert given["JDK_JAVA_OPTIONS"] == '-Xmx1g "@/somewhere/epoch-7"'


def test_a_credential_is_in_the_file_alone_and_spark_is_told_to_hide_it() -> None:
    credential = FileCredential(7, "flights-7", "the-secret")
    location = checkpoint_location(["https://127.0.0.1:7070"], "flights", 7, credential=credential)
    given = environment({"MILEPOST_TOKEN": "the-secret of all"}, location, "flights", 7, Path("/somewhere"))
    assert not any("the-secret" in value for value in given.values())
    assert f'"-D{SECRET}=the-secret"' in options(location, {}).splitlines()
    assert re.search(properties(location, {})[REDACTION], SECRET)
    assert REDACTION not in properties(LOCATION, {})


def test_name_services_of_the_cluster_stay(tmp_path: Path) -> None:
    location = checkpoint_location(["http://127.0.0.1:1", "http://127.0.0.1:2"], "flights", 7)
    assert properties(location, {})[NAME_SERVICES] == "milepost"
    (tmp_path / "hdfs-site.xml").write_text(
        "<configuration><property><name>dfs.nameservices</name><value> east, west </value></property>"
        "<property><name>dfs.replication</name><value>2</value></property></configuration>"
    )
    surroundings = {"HADOOP_CONF_DIR": "", "YARN_CONF_DIR": str(tmp_path)}
    assert properties(location, surroundings)[NAME_SERVICES] == "east,west,milepost"
    assert NAME_SERVICES not in properties(LOCATION, surroundings)
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(ValueError, match=r"hdfs-site\.xml: no element found"):
        properties(location, surroundings)


def refusal(*command: str, **environment: str) -> str:
    """What the command is refused with."""
    with pytest.raises(ValueError, match=r".") as refused:
        check(command, environment, OURS)
    return str(refused.value)


@pytest.mark.parametrize(
    "command",
    [
        ("spark-submit", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2", "job.jar"),
        ("spark-submit", "--deploy-mode", "client", "--properties-file", "/nowhere/at-all", "job.jar"),
        ("spark-submit", f"--conf={DEFAULT_LOCATION}={OURS.url}/mine", "job.jar"),
        ("spark-submit", "-c", f"{DEFAULT_LOCATION}={OURS.url}", "job.jar"),
        ("spark-pipelines", "run", "--remote", "local"),
        ("python", "job.py", "--conf"),
    ],
)
def test_a_command_that_keeps_to_the_location_may_run(command: tuple[str, ...]) -> None:
    check(command, {}, OURS)


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
    assert DEFAULT_LOCATION in refusal("spark-submit", "-c", f"{DEFAULT_LOCATION}={OURS.url}x", "job.jar")


@pytest.mark.parametrize("line", ["{} s3a://elsewhere", "  {}=s3a://elsewhere", "{}\t:  s3a://elsewhere"])
def test_files_of_properties(tmp_path: Path, line: str) -> None:
    file = tmp_path / "conf" / "spark-defaults.conf"
    file.parent.mkdir()
    file.write_text(f"# {line.format(DEFAULT_LOCATION)}\nspark.master local\n\nlonely\n")
    check(["spark-submit"], {"SPARK_HOME": str(tmp_path)}, OURS)
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
    check(command, {}, OURS)
    with pytest.raises(ValueError, match=r"spark\.redaction\.regex must match spark\.hadoop\.dfs") as refused:
        check(command, {}, location)
    assert "the-secret" not in str(refused.value)
    assert "add '|credential' to it" in str(refused.value)
    check([*command[:2], "spark.redaction.regex=(?i)password|credential", "job.jar"], {}, location)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_they_are_this_users_alone_and_gone_at_the_end(temporary: Path) -> None:
    with PrivateFiles() as files:
        path = files.add("epoch-7", b"text")
        assert path.read_bytes() == b"text"
        assert path == files.directory / "epoch-7"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    assert list(temporary.iterdir()) == []


def test_they_look_new_for_as_long_as_they_are_kept() -> None:
    with PrivateFiles() as files:
        paths = [files.add("epoch-7", b"text"), files.add("agent.jar", b"jar")]
        for path in (*paths, files.directory):
            os.utime(path, (1.0, 1.0))
        files.keep()
        assert min(path.stat().st_mtime for path in (*paths, files.directory)) > 1e9
        assert [path.read_bytes() for path in paths] == [b"text", b"jar"]


@pytest.mark.parametrize("gone", ["one file", "their directory", "all temporary files"])
def test_they_are_written_again_if_they_are_gone(temporary: Path, gone: str, caplog: pytest.LogCaptureFixture) -> None:
    with PrivateFiles() as files:
        paths = [files.add("epoch-7", b"text"), files.add("agent.jar", b"jar")]
        if gone == "one file":
            paths[1].unlink()
        else:
            shutil.rmtree(files.directory if gone == "their directory" else temporary)
        files.keep()
        assert [path.read_bytes() for path in paths] == [b"text", b"jar"]
        assert stat.S_IMODE(paths[1].stat().st_mode) == 0o600
        assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    assert caplog.text.count("wrote it again") == (1 if gone == "one file" else 2)
    assert not files.directory.exists()


def test_they_are_not_written_into_a_directory_that_others_may_change(caplog: pytest.LogCaptureFixture) -> None:
    with PrivateFiles() as files:
        path = files.add("epoch-7", b"text")
        path.unlink()
        files.directory.chmod(0o777)
        files.keep()
        assert not path.exists()
    assert "may not find its settings" in caplog.text


def test_they_cannot_be_written_at_all(temporary: Path) -> None:
    shutil.rmtree(temporary)
    with pytest.raises(FileNotFoundError):
        PrivateFiles()
