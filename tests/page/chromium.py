"""Start the Chromium that tools/chromium finds or has fetched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

_TOOL = Path(__file__).parents[2] / "tools" / "chromium"


class ChromiumAbsent(Exception):
    """There is no Chromium on this machine. The message says how to get one."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window. As root it has no sandbox, with which it would refuse to run. Raises
    `ChromiumAbsent`.
    """
    found = subprocess.run([_TOOL, "--find"], capture_output=True, text=True, check=False, timeout=60)
    if found.returncode:
        raise ChromiumAbsent(found.stderr.strip().removeprefix("chromium: "))
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found.stdout.strip(), args=flags)
        yield running
        running.close()
