"""The jar that a user would bring: the job in ``java/``, compiled against Spark alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from demo.processes import DemoFailed

_SOURCES = Path(__file__).parent / "java"
_SECONDS = 240.0


def spark_home() -> Path:
    """Where Spark is: in the package of PySpark. Raises `DemoFailed`."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise DemoFailed("pyspark is not installed, whose jars hold Spark")
    return Path(spec.origin).parent


def make_jar(directory: Path) -> Path:
    """Compile the job, into a new ``directory``; the jar. Raises `DemoFailed`, also where there is no JDK."""
    home = os.environ.get("JAVA_HOME")
    compiler = shutil.which("javac", path=f"{home}/bin" if home else None)
    if compiler is None:
        raise DemoFailed(f"no Java compiler in {home or 'the PATH'}: this demo needs a JDK of Java 17 or newer")
    classes = directory / "classes"
    classes.mkdir(parents=True)
    sources = map(str, _SOURCES.glob("*.java"))
    compiled = subprocess.run(
        [compiler, "-cp", f"{spark_home()}/jars/*", "-d", str(classes), *sources],
        capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    if compiled.returncode != 0:
        raise DemoFailed(f"the job does not compile:\n{compiled.stdout}{compiled.stderr}")
    return Path(shutil.make_archive(str(directory / "flights"), "zip", classes)).rename(directory / "flights.jar")
