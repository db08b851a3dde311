"""Finds the settings that a command gives to Spark: on its command line, in its environment, and in files."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

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
"""The variables with options that Java reads, in the order in which Java applies them: the last one overrides."""

_READ_BY_SPARK = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""The variables with options that Spark's launcher adds to Java's command line."""

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_SPARK = re.compile(r"spark-[\w-]+|pyspark|sparkR|start-[\w-]+\.sh")

Found = tuple[str, str, str]
"""The key of a property, its value, and the place where it is set, for messages."""

_LINES = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_ENTRY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_MEANS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

_PROGRAMS = re.compile(r"spark-[\w-]+|pyspark|sparkR|run-example|start-[\w-]+\.sh|(python|pypy)[\d.]*")
_OF_PIP = "find_spark_home.py"
"""The script that only a Spark installed by pip has. Spark's other scripts then use the PySpark that a Python
interpreter imports, whatever directory they are in.
"""


def settings(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Found]:
    """Yield the settings that Spark would get from outside of the job's program, each with the place where it is
    set.
    """
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
    """Return whether the command names a property file, which Spark reads instead of ``spark-defaults.conf``.

    Spark's scripts find the name on their command line, and a Python program finds it in an environment variable, whose
    words are ``arguments``.
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
    """Yield the name and the value of each option that Spark's launcher has, such as ``--conf``, wherever it is in
    ``words``.
    """
    for position, word in enumerate(words):
        name, joined, value = word.partition("=")
        if name not in _OPTIONS:
            continue
        if joined:
            yield name, value
        elif position + 1 < len(words):
            yield name, words[position + 1]


def _of_java(options: Iterable[str], place: str) -> Iterator[Found]:
    """Yield the system properties among options of Java. Spark reads those whose names begin with ``spark.``."""
    for word in options:
        if word.startswith("-D"):
            key, _, value = word[2:].partition("=")
            yield key, value, place if word in place else f"{place}: {word}"


def _with_files(options: Iterable[str]) -> Iterator[str]:
    """Yield the options, with the content of each options file in place of its name, such as ``@file``."""
    for word in options:
        path = Path(word[1:])
        if word.startswith("@") and _readable(path):
            yield from _words(path.read_text(encoding="utf-8", errors="replace"), comments=True)
        else:
            yield word


def _words(line: str, comments: bool = False) -> list[str]:
    try:
        return shlex.split(line, comments)
    except ValueError:  # an opening quote has no closing one
        return line.split()


def _of_file(path: Path) -> Iterator[Found]:
    if not _readable(path):
        return  # Spark itself reports an unreadable file, if it needs the file
    for key, value in parse(path.read_text(encoding="utf-8", errors="replace")).items():
        yield key, value, str(path)


def _readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)


def parse(text: str) -> dict[str, str]:
    """Return the properties that ``text`` sets, in the format of Java's property files.

    Blanks at the end of a value are removed, as Spark does. If a property is set twice, the last value counts.
    """
    found = {}
    for line in _whole_lines(text):
        entry = _ENTRY.match(line)
        assert entry is not None  # the regular expression matches any line
        found[_plain(entry[1])] = _plain(entry[2]).strip()
    return found


def _whole_lines(text: str) -> list[str]:
    """Return the lines of a property file. Lines that end in a backslash are joined; comments and empty lines are left
    out.
    """
    whole: list[str] = []
    begun: str | None = None
    for line in _LINES.split(text):
        rest = line.lstrip(_BLANKS)
        if begun is None:
            if not rest or rest[0] in "#!":
                continue
            begun = ""
        begun += rest
        if _CONTINUED.search(begun):
            begun = begun[:-1]
        else:
            whole.append(begun)
            begun = None
    return whole if begun is None else [*whole, begun]


def _plain(escaped: str) -> str:
    def meant(match: re.Match[str]) -> str:
        character = match[1]
        return chr(int(character[1:], 16)) if len(character) == 5 else _MEANS.get(character, character)

    return _ESCAPED.sub(meant, escaped)


def defaults(command: Sequence[str], environment: Mapping[str, str]) -> list[Path]:
    """Return the paths of each ``spark-defaults.conf`` that Spark may read when ``command`` starts it. The files need
    not exist.

    There are several only if it cannot be determined which one Spark will read.
    """
    if directory := environment.get("SPARK_CONF_DIR"):
        return [Path(directory, "spark-defaults.conf")]
    named = environment.get("SPARK_HOME")
    homes = [Path(named)] if named else _homes(command, environment)
    return [home / "conf" / "spark-defaults.conf" for home in homes]


def _homes(command: Sequence[str], environment: Mapping[str, str]) -> list[Path]:
    """Return the installation directories of the Spark that the command uses; several if it is not certain which one.

    Candidates are the command's program, then the programs that it may wrap (such as in ``env``, ``nice`` or ``bash``),
    and last the ``spark-submit`` on the PATH.
    """
    wrapped = [word for word in command[1:] if _PROGRAMS.fullmatch(Path(word).name)]
    for word in (*command[:1], *wrapped, "spark-submit"):
        program = _program(word, environment)
        if program is not None and (homes := list(dict.fromkeys(_homes_of(program, environment)))):
            return homes
    return []


def _program(word: str, environment: Mapping[str, str]) -> Path | None:
    found = shutil.which(word, path=environment.get("PATH", os.defpath)) if word else None
    return None if found is None else Path(found).absolute()


def _homes_of(program: Path, environment: Mapping[str, str]) -> Iterator[Path]:
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
    """Return the installation directory of the PySpark that ``python`` imports, which is the first one on Python's
    path; several if it is not certain which one, and none if PySpark is not found.

    ``python`` is an interpreter, or a script in the same directory as one.
    """
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
