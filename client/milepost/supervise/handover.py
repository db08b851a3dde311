"""Hands the checkpoint location to a command: in its environment, and to each JVM that it starts as system properties.

Spark takes every system property that begins with ``spark.`` into its configuration, and those that begin with
``spark.hadoop.`` into the Hadoop configuration, which executors get with each query. ``JDK_JAVA_OPTIONS`` reaches the
JVM whoever starts it: spark-submit, a Python program, a shell script. The properties are in a file that only this user
may read, because Java prints the variable when it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from milepost.core.checkpoint_location import CREDENTIAL, CheckpointLocation
from milepost.supervise.hadoop import name_services

OPTIONS: Final = "JDK_JAVA_OPTIONS"
DEFAULT_LOCATION: Final = "spark.sql.streaming.checkpointLocation"
NAME_SERVICES: Final = "spark.hadoop.dfs.nameservices"
SECRET: Final = f"spark.hadoop.{CREDENTIAL}"
REDACTION: Final = "spark.redaction.regex"
"""The property by which Spark finds what it has to hide in its UI, its logs and its event log."""

_TOKEN: Final = "MILEPOST_TOKEN"
"""The variable of the service's own token. It opens more than the job's files, so the command does not get it."""

_HIDDEN: Final = "(?i)secret|password|token|access[.]?key"
"""What Spark hides by default. It does not take the name of `SECRET` for that of a secret."""


def properties(location: CheckpointLocation, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of Spark under which a job writes at ``location``. Queries that name no checkpoint location
    get directories below it. Name services that the Hadoop configuration of ``environment`` has stay beside Milepost's.
    Where there is a secret among the properties, Spark is told to hide it.
    """
    settings = {f"spark.hadoop.{key}": value for key, value in location.settings.items()}
    if NAME_SERVICES in settings:
        settings[NAME_SERVICES] = ",".join([*name_services(environment), settings[NAME_SERVICES]])
    if SECRET in settings:
        settings[REDACTION] = f"{_HIDDEN}|credential"
    return {**settings, DEFAULT_LOCATION: f"{location.url}/queries"}


def options(location: CheckpointLocation, environment: Mapping[str, str]) -> str:
    """Return the text of a file of Java's options that sets those properties."""
    return "".join(f"{_quoted(f'-D{key}={value}')}\n" for key, value in properties(location, environment).items())


def environment(
    inherited: Mapping[str, str], location: CheckpointLocation, job: str, epoch: int, file: Path
) -> dict[str, str]:
    """Return the environment of a start under ``epoch``, which names the ``file`` that has the `options`."""
    before = inherited.get(OPTIONS, "")
    return {
        **{name: value for name, value in inherited.items() if name != _TOKEN},
        OPTIONS: f'{before} "@{file}"'.lstrip(),
        "MILEPOST_CHECKPOINT_LOCATION": location.url,
        "MILEPOST_JOB": job,
        "MILEPOST_EPOCH": str(epoch),
        "SPARK_NO_DAEMONIZE": "1",  # Spark's own scripts for servers would end, and leave the server behind
    }


def _quoted(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
