"""The whole set on one machine, as ``make up`` starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest

import milepost
from testbed.lifetimes import began
from tests.wire.support.api import until

ADDRESS = "  replica      "


def ready(url: str) -> bool:
    """Whether a replica leads or knows who does, and reaches its stores."""
    try:
        return httpx.get(f"{url}/readyz", timeout=20.0).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.timeout(600)
def test_what_was_killed_is_started_again_and_all_of_it_ends(tmp_path: Path) -> None:
    def testbed(command: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "testbed", command, "--directory", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=200,
            check=True,
        )
        return ended.stdout

    def running() -> dict[str, int]:
        noted = json.loads((tmp_path / "running.json").read_text())
        return {each["name"]: each["pid"] for each in noted if began(each["pid"]) == each["began"]}

    try:
        said = testbed("up")
        urls = [line.split()[1] for line in said.splitlines() if line.startswith(ADDRESS)]
        first = running()
        assert len(urls) == 3
        assert len(first) == 7
        killed = [name for name in first if name.startswith(("replica", "zookeeper"))][::3]
        for name in killed:
            os.kill(first[name], signal.SIGKILL)
        until(lambda: len(running()) == len(first) - len(killed), "they are gone")
        assert testbed("up").rstrip().endswith(f"started again: {', '.join(killed)}")
        assert running().keys() == first.keys()
        assert testbed("up").rstrip().endswith("all of it runs")
        for url in urls:
            until(partial(ready, url), "each replica is back")
        with milepost.Client(urls, timeout=100.0) as client, client.session() as session:
            session.store("s").add_and_lock("h", b"state")
    finally:
        left = list(running().values()) if (tmp_path / "running.json").exists() else []
        testbed("down")
    assert all(began(pid) is None for pid in left)
