"""Passes the checkpoint location to a command: in its environment, and as system properties to each JVM that it starts.

It refuses a command with settings by which the job's writes would not carry the epoch, and names these settings.

Spark takes every system property that begins with ``spark.`` into its configuration, and those that begin with
``spark.hadoop.`` into the Hadoop configuration, which executors get with each query. Java reads ``JDK_JAVA_OPTIONS``,
whatever starts it: spark-submit, a Python program, or a shell script. Since Java prints this variable when it starts,
the variable only names a file with the properties, which no other user may read.
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
"""The property whose value is the pattern of settings that Spark hides in its UI, its logs and its event log."""

_TOKEN: Final = "MILEPOST_TOKEN"
"""The variable with the token of the service. The command does not get it, since it gives more rights than the job
needs.
"""

_HIDDEN: Final = "(?i)secret|password|token|access[.]?key"
"""Spark's default pattern of settings to hide. It does not match the name of `SECRET`."""

_log = logging.getLogger(__name__)

_LISTED = "dfs.nameservices"


def properties(location: CheckpointLocation, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark properties with which a job writes at ``location``.

    Queries that name no checkpoint location get directories below ``location``. The name services of HDFS in the Hadoop
    configuration that ``environment`` names are kept beside Milepost's. If a property contains a secret, another
    property makes Spark hide it.
    """
    settings = {f"spark.hadoop.{key}": value for key, value in location.settings.items()}
    if NAME_SERVICES in settings:
        settings[NAME_SERVICES] = ",".join([*_name_services(environment), settings[NAME_SERVICES]])
    if SECRET in settings:
        settings[REDACTION] = f"{_HIDDEN}|credential"
    return {**settings, DEFAULT_LOCATION: f"{location.url}/queries"}


def options(location: CheckpointLocation, environment: Mapping[str, str], agent: str | None = None) -> str:
    """Return the text of a Java options file that sets the `properties`, and that starts an agent, if ``agent`` is the
    option for that.
    """
    set_properties = [f"-D{key}={value}" for key, value in properties(location, environment).items()]
    return "".join(f"{_quoted(each)}\n" for each in [*set_properties, *([agent] if agent else [])])


def environment(
    inherited: Mapping[str, str], location: CheckpointLocation, job: str, epoch: int, file: Path
) -> dict[str, str]:
    """Return the environment of a command that is started under ``epoch``: the ``inherited`` variables without
    Milepost's token, variables for the job, its epoch and its ``location``, and one that makes Java read ``file``,
    which contains the `options`.
    """
    before = inherited.get(OPTIONS, "")
    return {
        **{name: value for name, value in inherited.items() if name != _TOKEN},
        OPTIONS: f'{before} "@{file}"'.lstrip(),
        "MILEPOST_CHECKPOINT_LOCATION": location.url,
        "MILEPOST_JOB": job,
        "MILEPOST_EPOCH": str(epoch),
        # makes Spark's scripts for servers wait for the server's end
        "SPARK_NO_DAEMONIZE": "1",
    }


def _quoted(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def check(command: Sequence[str], environment: Mapping[str, str], location: CheckpointLocation) -> None:
    """Raise ValueError, with the remedy, if the command would not run on this machine, or not with Milepost's settings.

    The check covers the command line, the variables that Spark and Java read, the property files that these name, and
    Spark's own defaults file. It cannot see settings that a program makes itself.
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
            continue  # the setting of the job includes the name services that `milepost run` sets
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
    """Return whether the regular expression of Spark's setting for hidden values matches the setting ``name``; False if
    Python cannot compile this Java expression.
    """
    try:
        return re.search(expression, name) is not None
    except re.error:
        return False


class PrivateFiles:
    """Files in a temporary ``directory`` that no other user may read. At the end of a ``with`` block of the object, the
    directory is deleted. Raises OSError.
    """

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="milepost-run-", ignore_cleanup_errors=True)
        self.directory = Path(self._temporary.name)
        self._contents: dict[Path, bytes] = {}

    def add(self, name: str, content: bytes) -> Path:
        """Write the file ``name``, and return its path. Raises OSError."""
        path = self.directory / name
        self._write(path, content)
        self._contents[path] = content
        return path

    def keep(self) -> None:
        """Set the files' modification times to now, since the system may delete old temporary files; write a file again
        if it is gone.

        Failures are logged.
        """
        for path, content in self._contents.items():
            try:
                try:
                    for each in (self.directory, path):
                        os.utime(each)
                except FileNotFoundError:
                    with suppress(FileExistsError):
                        self.directory.mkdir(mode=0o700, parents=True)
                    self._write(path, content)
                    _log.warning("another process removed %s, wrote it again for whatever the command starts", path)
            except OSError as error:
                _log.warning("what the command starts from now on may not find its settings in %s: %s", path, error)

    def _write(self, path: Path, content: bytes) -> None:
        directory = self.directory.lstat()
        if not stat.S_ISDIR(directory.st_mode) or directory.st_uid != os.geteuid() or directory.st_mode & 0o077:
            raise PermissionError(f"{self.directory} belongs to another user")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
            opened.write(content)

    def __enter__(self) -> PrivateFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._temporary.cleanup()


def _name_services(environment: Mapping[str, str]) -> list[str]:
    """Return the name services in ``hdfs-site.xml``, from the first Hadoop configuration directory that has this file.

    Raises ValueError if the file is not XML.
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
