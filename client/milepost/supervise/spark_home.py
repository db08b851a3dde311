"""Finds Spark's own file of defaults as Spark's scripts and PySpark find it, without running any of them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_PROGRAMS = re.compile(r"spark-[\w-]+|pyspark|sparkR|run-example|start-[\w-]+\.sh|(python|pypy)[\d.]*")
_OF_PIP = "find_spark_home.py"
"""What pip puts beside Spark's scripts. They then ask a Python where its PySpark is, and their own place says nothing.
"""


def defaults(command: Sequence[str], environment: Mapping[str, str]) -> list[Path]:
    """Return the files of defaults that Spark may read, where ``command`` starts it; there may be none at that place.

    There are several only where it cannot be told from here which one it will be.
    """
    if directory := environment.get("SPARK_CONF_DIR"):
        return [Path(directory, "spark-defaults.conf")]
    named = environment.get("SPARK_HOME")
    homes = [Path(named)] if named else _homes(command, environment)
    return [home / "conf" / "spark-defaults.conf" for home in homes]


def _homes(command: Sequence[str], environment: Mapping[str, str]) -> list[Path]:
    """Look at the program, then at what it may be a wrapper for (``env``, ``nice``, ``bash``), and at last at the Spark
    that a script of the user's would find.
    """
    wrapped = [word for word in command[1:] if _PROGRAMS.fullmatch(Path(word).name)]
    for word in (*command[:1], *wrapped, "spark-submit"):
        program = _program(word, environment)
        if program is not None and (homes := list(dict.fromkeys(_of(program, environment)))):
            return homes
    return []


def _program(word: str, environment: Mapping[str, str]) -> Path | None:
    found = shutil.which(word, path=environment.get("PATH", os.defpath)) if word else None
    return None if found is None else Path(found).absolute()


def _of(program: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    if (program.parent / _OF_PIP).is_file():
        asked = environment.get("PYSPARK_DRIVER_PYTHON") or environment.get("PYSPARK_PYTHON") or "python3"
        python = _program(asked, environment)
        if python is not None and (found := _of_python(python, environment)):
            yield from found
            return
    else:
        above = [place.parent.parent for place in (program, program.resolve())]
        if found := [home for home in above if _is_home(home) and not (home / "bin" / _OF_PIP).is_file()]:
            yield from found
            return
    yield from _of_python(program, environment)


def _of_python(python: Path, environment: Mapping[str, str]) -> list[Path]:
    """Return the PySpark that a Python, or a script beside one, imports: the first on its path."""
    for directory in environment.get("PYTHONPATH", "").split(os.pathsep):
        if directory and (found := _of_package(Path(directory, "pyspark"))):
            return found
    users = [Path(environment["HOME"], ".local")] if environment.get("HOME") else []
    for place in (python, python.resolve()):
        prefix = place.parent.parent
        beside = [prefix / "local", *users] if prefix == Path("/usr") else users
        for each in (prefix, *beside):
            packages = sorted(each.glob("lib*/py*/*-packages/pyspark"))
            if found := [home for package in packages for home in _of_package(package)]:
                return found
    return []


def _of_package(package: Path) -> list[Path]:
    for home in (package / "spark-distribution", package, package.parent.parent):
        if _is_home(home):
            return [home]
    return []


def _is_home(place: Path) -> bool:
    return (place / "bin" / "spark-submit").is_file()
