"""Runs programs of Hadoop, daemons and commands, from the jars that ``tools/maven-jars`` fetches."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from testbed.java import FOR_SMALL, java
from testbed.maven import jars
from testbed.process import DEADLINE_SECONDS, Process, ProcessFailed

_FILES = ("core-site.xml", "hdfs-site.xml")
_OPENS = ("--add-opens", "java.base/java.lang=ALL-UNNAMED")
"""What the library behind the NameNode's WebHDFS needs since Java 17."""


def configure(directory: Path, settings: Mapping[str, str]) -> None:
    """Write a configuration for servers or clients into ``directory``, which HADOOP_CONF_DIR then has to name.

    Both files get all settings: defaults that come with the second file would override what only the first one says.
    """
    directory.mkdir(parents=True, exist_ok=True)
    properties = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    for name in _FILES:
        (directory / name).write_text(f"<configuration>\n{properties}</configuration>\n")


class Daemon(Process):
    """A program of Hadoop that keeps running; its configuration lies in ``directory/conf``.

    A change of ``settings`` holds from the next `prepare` and `start` on.
    """

    def __init__(
        self,
        name: str,
        main: str,
        directory: Path,
        *,
        settings: Mapping[str, str],
        detached: bool = False,
    ) -> None:
        self.settings = {"hadoop.tmp.dir": str(directory / "tmp"), **settings}
        self.configuration = directory / "conf"
        super().__init__(
            name,
            _command(main, self.configuration),
            log_path=directory / f"{name}.log",
            directory=directory,
            detached=detached,
        )

    def prepare(self) -> None:
        """Write the configuration."""
        configure(self.configuration, self.settings)


def mbean(port: int, name: str) -> dict[str, Any] | None:
    """Return what a daemon says about itself under ``name`` (a JMX bean), on its HTTP port; None without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", f"/jmx?qry=Hadoop:{name}")
        beans: list[dict[str, Any]] = json.loads(connection.getresponse().read())["beans"]
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()
    return beans[0] if beans else None


def run(main: str, configuration: Path, *arguments: str, deadline: float = DEADLINE_SECONDS) -> str:
    """Run a command to its end, and return what it printed. Raises `ProcessFailed`."""
    command = [*_command(main, configuration), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProcessFailed(f"{main} still runs after {deadline:g} s") from error
    if ended.returncode != 0:
        raise ProcessFailed(f"{main} {' '.join(arguments)} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def _command(main: str, configuration: Path) -> list[str]:
    options = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
    return [str(java()), *FOR_SMALL, *_OPENS, *options, "-cp", f"{configuration}:{jars('hadoop')}/*", main]
