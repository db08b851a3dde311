"""Run pytest on a directory in a process of its own, as the tests of pytest's plugins need it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run_pytest(
    directory: Path, *arguments: str, plugins: Sequence[str], timeout: float, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it with these plugins and no others, and with nothing that was meant for the run that this is a part of."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    named = [word for plugin in plugins for word in ("-p", plugin)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *named, *arguments, "-c", os.devnull, "--rootdir", directory, directory],
        cwd=ROOT,
        env={**inherited, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
