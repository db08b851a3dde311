"""What a command finds in its environment."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.core.checkpoint_location import checkpoint_location
from milepost.supervise.handover import NAME_SERVICES, REDACTION, SECRET, environment, options, properties
from milepost.types import FileCredential

LOCATION = replace(
    checkpoint_location(["http://127.0.0.1:7070"], "flights", 7),
    settings={"dfs.x": 'with "quotes" and \\', "dfs.y": "1"},
)


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
