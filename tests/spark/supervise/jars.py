"""Jobs in Java, compiled against Spark's jars by the JDK of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.spark.supervise.supervised import spark_home
from tools.jvm.jar import compiler

_SECONDS = 240


def compile_into(directory: Path, sources: Path) -> None:
    """Compile all that is in a directory of sources. Raises `NoCompiler`."""
    jars = f"{spark_home()}/jars/connect-repl/*:{spark_home()}/jars/*"
    command = [compiler(), "-cp", jars, "-d", str(directory), *map(str, sources.glob("*.java"))]
    subprocess.run(command, timeout=_SECONDS, check=True)


def java() -> str:
    """The path of java."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def jar_of(classes: Path, name: Path) -> Path:
    """The classes as the jar that a user submits; ``name`` is its path without an end."""
    return Path(shutil.make_archive(str(name), "zip", classes)).rename(name.with_suffix(".jar"))
