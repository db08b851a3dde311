"""Hands the checkpoint location to a command: in its environment, and to each JVM that it starts as system properties.
Commands whose job would write past the fence are refused by name.

Spark takes every system property that begins with ``spark.`` into its configuration, and those that begin with
``spark.hadoop.`` into the Hadoop configuration, which executors get with each query. ``JDK_JAVA_OPTIONS`` reaches the
JVM whoever starts it: spark-submit, a Python program, a shell script. The properties are in a file that only this user
may read, because Java prints the variable when it starts.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final
from xml.etree import ElementTree

from milepost.core.checkpoint_location import CREDENTIAL, CheckpointLocation
from milepost.supervise.settings import MODE, REMOTE, settings

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

_log = logging.getLogger(__name__)

_LISTED = "dfs.nameservices"


def properties(location: CheckpointLocation, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of Spark under which a job writes at ``location``. Queries that name no checkpoint location
    get directories below it. Name services that the Hadoop configuration of ``environment`` has stay beside Milepost's.
    Where there is a secret among the properties, Spark is told to hide it.
    """
    settings = {f"spark.hadoop.{key}": value for key, value in location.settings.items()}
    if NAME_SERVICES in settings:
        settings[NAME_SERVICES] = ",".join([*_name_services(environment), settings[NAME_SERVICES]])
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


def check(command: Sequence[str], environment: Mapping[str, str], location: CheckpointLocation) -> None:
    """Raise ValueError, which says what to do, if the job would not run here or not with the settings of ``location``.

    What counts is the command line, the variables that Spark and Java read, the files of properties that these name,
    and Spark's own file of defaults. What a program sets itself, nobody sees from here.
    """
    ours = properties(location, environment)
    for key, value, place in settings(command, environment):
        if key == MODE and value == "cluster":
            raise ValueError(
                f"{place}: the driver has to run here, where it can be ended; run `milepost run` itself on the cluster"
            )
        if key == REMOTE and value.startswith("sc://"):
            raise ValueError(f"{place}: the queries run in the Connect server, so run that server by `milepost run`")
        if key == DEFAULT_LOCATION and (value == location.url or value.startswith(f"{location.url}/")):
            continue
        if key == NAME_SERVICES and set(ours.get(key, "").split(",")) <= set(value.split(",")):
            continue  # a job may have more of them
        if key == REDACTION and key in ours:
            if not all(_hides(value, name) for name in (SECRET, CREDENTIAL)):
                raise ValueError(
                    f"{place}: {key} must match {SECRET} as well as {CREDENTIAL}, by which names Spark would show a "
                    "secret otherwise: add '|credential' to it"
                )
            continue
        if key in ours and value != ours[key]:
            raise ValueError(f"{place}: {key} is set by `milepost run`, to {ours[key]!r}; leave it out")


def _hides(expression: str, name: str) -> bool:
    """Return whether Java's regular expression finds a name, as far as Python reads it in the same way."""
    try:
        return re.search(expression, name) is not None
    except re.error:
        return False


class PrivateFile:
    """A file called ``name`` with ``text`` in it, in a temporary directory of its own.

    It is there until a ``with`` block of this object ends; making the object writes it. Raises OSError.
    """

    def __init__(self, name: str, text: str) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="milepost-run-", ignore_cleanup_errors=True)
        self.path = Path(self._directory.name, name)
        self._text = text
        try:
            self._write()
        except OSError:
            self._directory.cleanup()
            raise

    def keep(self) -> None:
        """Make the file look new, because temporary files are removed after some days; write it again if it is gone.

        What fails is logged.
        """
        try:
            try:
                for path in (self.path.parent, self.path):
                    os.utime(path)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    self.path.parent.mkdir(mode=0o700, parents=True)
                self._write()
                _log.warning("somebody removed %s, wrote it again for whatever the command starts", self.path)
        except OSError as error:
            _log.warning("what the command starts from now on may not find its settings in %s: %s", self.path, error)

    def _write(self) -> None:
        directory = self.path.parent.lstat()
        if not stat.S_ISDIR(directory.st_mode) or directory.st_uid != os.geteuid() or directory.st_mode & 0o077:
            raise PermissionError(f"{self.path.parent} was made by somebody else")
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
            opened.write(self._text)

    def __enter__(self) -> PrivateFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()


def _name_services(environment: Mapping[str, str]) -> list[str]:
    """Return the HDFS name services that ``hdfs-site.xml`` lists, in the directory where Spark looks first.

    Raises ValueError for a file that is no XML.
    """
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        path = Path(environment.get(variable) or "/nowhere", "hdfs-site.xml")
        if not path.is_file():
            continue
        try:
            root = ElementTree.parse(path).getroot()
        except ElementTree.ParseError as error:
            raise ValueError(f"{path}: {error}") from error
        named = [found.findtext("value", "") for found in root if found.findtext("name", "").strip() == _LISTED]
        return [service.strip() for service in ",".join(named[-1:]).split(",") if service.strip()]
    return []
