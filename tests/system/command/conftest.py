"""The command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command() -> Command:
    """Run ``milepost`` with these arguments, and without any settings of whoever runs the tests."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MILEPOST_")}

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", "from milepost.cli import main; main()"]
        return subprocess.run(
            [*program, *arguments],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**own, "MILEPOST_CONFIG": os.devnull, "NO_COLOR": "1"},
        )

    return ran
