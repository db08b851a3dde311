"""Jobs in Java, which the JDK of the machine compiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.supervise.jars import compile_into, jar_of
from tests.spark.supervise.sums import Sums
from tools.jvm.jar import NoCompiler

_SOURCES = Path(__file__).parent / "java"


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the compiled jobs."""
    directory = tmp_path_factory.mktemp("classes")
    try:
        compile_into(directory, _SOURCES)
    except NoCompiler as error:
        pytest.skip(str(error))
    return directory


@pytest.fixture(scope="session")
def jar(classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as the jar that a user submits."""
    return jar_of(classes, tmp_path_factory.mktemp("jar") / "jobs")


@pytest.fixture
def sums(tmp_path: Path) -> Sums:
    """A job with an empty directory."""
    directory = tmp_path / "output"
    directory.mkdir()
    return Sums(directory)
