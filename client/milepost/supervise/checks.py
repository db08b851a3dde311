"""Refuses, by name, commands whose job would write past the fence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from milepost.core.checkpoint_location import CREDENTIAL, CheckpointLocation
from milepost.supervise.handover import DEFAULT_LOCATION, NAME_SERVICES, REDACTION, SECRET, properties
from milepost.supervise.spark_home import defaults

_MODE = "spark.submit.deployMode"
_REMOTE = "spark.remote"
_OPTIONS = {"--conf": "", "-c": "", "--deploy-mode": _MODE, "--remote": _REMOTE, "--properties-file": ""}
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(:\d+)?")
_PROPERTY = re.compile(r"\s*([^\s=:#!]+)\s*[=:\s]\s*(.*?)\s*$")

Found = tuple[str, str, str]
"""A property, its value, and where it stands."""


def check(command: Sequence[str], environment: Mapping[str, str], location: CheckpointLocation) -> None:
    """Raise ValueError, which says what to do, if the job would not run here or not with the settings of ``location``.

    What counts is the command line, the files of properties that it names, and Spark's own file of defaults. What a
    program sets itself, nobody sees from here.
    """
    if not _AUTHORITY.fullmatch(urlsplit(location.url).netloc):
        raise ValueError(
            f"{location.url} is no URL of Hadoop's: an authority is a name or an address, and maybe a port"
        )
    ours = properties(location, environment)
    for key, value, place in _settings(command, environment):
        if key == _MODE and value == "cluster":
            raise ValueError(
                f"{place}: the driver has to run here, where it can be ended; run `milepost run` itself on the cluster"
            )
        if key == _REMOTE and value.startswith("sc://"):
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


def _settings(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Found]:
    remote = environment.get("SPARK_REMOTE")
    if remote:
        yield _REMOTE, remote, "SPARK_REMOTE"
    for path in defaults(command, environment):
        yield from _of_file(path)
    for option, value in _options(command):
        if option == "--properties-file":
            yield from _of_file(Path(value))
        elif _OPTIONS[option]:
            yield _OPTIONS[option], value, f"{option} {value}"
        else:
            key, _, setting = value.partition("=")
            yield key.strip(), setting, f"{option} {value}"


def _options(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Find the options of Spark's launcher, whichever program takes them."""
    for position, argument in enumerate(command):
        name, joined, value = argument.partition("=")
        if name not in _OPTIONS:
            continue
        if joined:
            yield name, value
        elif position + 1 < len(command):
            yield name, command[position + 1]


def _of_file(path: Path) -> Iterator[Found]:
    if not os.access(path, os.R_OK):
        return  # Spark says so itself, if it needs the file
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if found := _PROPERTY.match(line):
            yield found[1], found[2], str(path)
