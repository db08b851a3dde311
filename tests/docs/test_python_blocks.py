"""Every block of Python in the documentation, and in what the chart says after an installation, has the right types.

Those that need no more than a server are run as well (test_blocks.py); the others need a Spark, a cluster or a token.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.docs.blocks import ROOT, all_blocks

pytestmark = pytest.mark.later

NOTES = ROOT / "deploy" / "chart" / "templates" / "NOTES.txt"

GIVEN = """
import milepost
import milepost.spark
from pyspark.sql import DataFrame, SparkSession

spark: SparkSession
frame: DataFrame
token: str
"""
"""What the text around a block speaks of."""


def written() -> dict[str, str]:
    """The blocks, by the file and line at which they begin."""
    return {block.place: block.text for block in all_blocks() if block.language == "python"}


def notes_of_the_chart() -> str:
    """The lines of Python that the chart prints, with something in each place that a template fills."""
    filled = re.sub(r"{{-? *(if|end|else)[^}]*}}", "", NOTES.read_text(encoding="utf-8"))
    filled = re.sub(r"{{[^}]*ttl[^}]*}}", "45", filled)
    filled = re.sub(r"{{[^}]*}}", "7070", filled)
    lines = re.findall(r"^ +((?:import milepost|client = |session = |with milepost).*)$", filled, re.MULTILINE)
    assert len(lines) >= 4
    return "\n".join(lines) + "\n    ...\n"


def test_the_types_are_right(tmp_path: Path) -> None:
    blocks = {**written(), "NOTES.txt": notes_of_the_chart()}
    assert len(blocks) >= 7
    (tmp_path / "mypy.ini").write_text("[mypy]\ncheck_untyped_defs = True\nignore_missing_imports = True\n")
    for number, (place, block) in enumerate(blocks.items()):
        (tmp_path / f"block_{number}.py").write_text(f"# {place}\n{GIVEN}\n{dedent(block)}", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(tmp_path / "mypy.ini"), "--follow-imports", "silent"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "docs"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT / "client")
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}\n{list(enumerate(blocks))}"


def test_no_block_of_python_hides_as_another() -> None:
    for block in all_blocks():
        if block.language not in ("python", "py"):
            assert not re.search(r"\bmilepost\.(Client\(|aio\.|spark\.lead)", block.text), block.place


@pytest.mark.parametrize("distribution", ["pyproject.toml", "client/pyproject.toml"])
def test_both_distributions_have_one_version(distribution: str) -> None:
    """The server reads the wire of the very SDK that it was built with."""
    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "client/pyproject.toml").read_text(), re.MULTILINE)
    assert f'version = "{version}"' in (ROOT / distribution).read_text()
    assert f'"milepost=={version}"' in (ROOT / "pyproject.toml").read_text()
