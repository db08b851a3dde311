"""Finds the settings that a command gives to Spark: on its line, in its environment, in the files that these name."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from milepost.supervise.properties_file import parse
from milepost.supervise.spark_home import defaults

MODE = "spark.submit.deployMode"
REMOTE = "spark.remote"

_FILE = "--properties-file"
_WITH_DEFAULTS = "--load-spark-defaults"
_JAVA = "--driver-java-options"
_PROPERTIES = {"--deploy-mode": MODE, "--remote": REMOTE, _JAVA: "spark.driver.extraJavaOptions"}
_OPTIONS = {"--conf", "-c", _FILE, *_PROPERTIES}
_OF_JAVA = {"spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"}
_VARIABLES = {"SPARK_REMOTE": REMOTE, "DEPLOY_MODE": MODE}
_READ_BY_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables with options of Java. The last wins over all that is said elsewhere."""
_READ_BY_SPARK = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""Variables from which Spark's launcher puts options on the line of Java."""
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_SPARK = re.compile(r"spark-[\w-]+|pyspark|sparkR|start-[\w-]+\.sh")

Found = tuple[str, str, str]
"""A property, its value, and where it stands."""


def settings(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Found]:
    """Yield what Spark would be told by someone else than the program itself, each with the place where it stands."""
    for key, value, place in _stated(command, environment):
        yield key, value, place
        if key in _OF_JAVA:
            yield from _of_java(_with_files(_words(value)), place)


def _stated(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Found]:
    for variable, key in _VARIABLES.items():
        if value := environment.get(variable):
            yield key, value, variable
    for variable in _READ_BY_JAVA:
        yield from _of_java(_words(environment.get(variable, "")), variable)
    for variable in _READ_BY_SPARK:
        yield from _of_java(_with_files(_words(environment.get(variable, ""))), variable)
    arguments = _words(environment.get(_ARGUMENTS, ""))
    if not _without_defaults(command, arguments):
        for path in defaults(command, environment):
            yield from _of_file(path)
    yield from _of_options(command, "")
    yield from _of_options(arguments, f"{_ARGUMENTS}: ")


def _without_defaults(command: Sequence[str], arguments: Sequence[str]) -> bool:
    """Return whether Spark is given another file of properties instead of its defaults.

    Its scripts take that from their line, and a Python program from the variable.
    """
    words = [Path(word).name for word in command]
    if any(_SPARK.fullmatch(word) for word in words):
        options = command
    elif any(_PYTHON.fullmatch(word) for word in words):
        options = arguments
    else:
        return False
    return any(name == _FILE for name, _ in _options(options)) and _WITH_DEFAULTS not in options


def _of_options(words: Sequence[str], where: str) -> Iterator[Found]:
    for option, value in _options(words):
        if option == _FILE:
            yield from _of_file(Path(value))
        elif option in _PROPERTIES:
            yield _PROPERTIES[option], value, f"{where}{option} {value}"
        else:
            key, _, setting = value.partition("=")
            yield key.strip(), setting, f"{where}{option} {value}"


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Find the options of Spark's launcher, whichever program takes them."""
    for position, word in enumerate(words):
        name, joined, value = word.partition("=")
        if name not in _OPTIONS:
            continue
        if joined:
            yield name, value
        elif position + 1 < len(words):
            yield name, words[position + 1]


def _of_java(options: Iterable[str], place: str) -> Iterator[Found]:
    """Find the system properties among options of Java: Spark takes those that begin with ``spark.``."""
    for word in options:
        if word.startswith("-D"):
            key, _, value = word[2:].partition("=")
            yield key, value, place if word in place else f"{place}: {word}"


def _with_files(options: Iterable[str]) -> Iterator[str]:
    """Put what they hold in the place of files that Java's launcher reads options from, such as ``@file``."""
    for word in options:
        path = Path(word[1:])
        if word.startswith("@") and _readable(path):
            yield from _words(path.read_text(encoding="utf-8", errors="replace"), comments=True)
        else:
            yield word


def _words(line: str, comments: bool = False) -> list[str]:
    try:
        return shlex.split(line, comments)
    except ValueError:  # a quote stays open
        return line.split()


def _of_file(path: Path) -> Iterator[Found]:
    if not _readable(path):
        return  # Spark says so itself, if it needs the file
    for key, value in parse(path.read_text(encoding="utf-8", errors="replace")).items():
        yield key, value, str(path)


def _readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)
