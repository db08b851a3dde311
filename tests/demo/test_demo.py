"""The whole demo, as ``make demo`` runs it. It judges itself: its exit status is the verdict."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.checkout import variables

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_it_ends_well_and_leaves_a_table_and_a_plot(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["make", "demo"],
        cwd=ROOT,
        env=variables(ARGS=f"--output {tmp_path}"),
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    table = (tmp_path / "table.txt").read_text()
    assert table in ended.stdout
    assert "336,776" in table
    assert re.search(r"the whole demo took [1-9]\d* seconds$", table.strip())
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
