"""Take the pictures of the page for the documentation: ``python -m tests.page.pictures DIRECTORY``."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal

import milepost
from testbed.server import ServerProcess
from tests.page.chromium import chromium
from tests.page.files import commit_batch
from tests.page.screen import Screen
from tests.page.story import driver, live_through
from tests.wire.webhdfs.replicas import Set

Scheme = Literal["light", "dark"]

PICTURES: Final[tuple[tuple[str, str, Scheme, int, int], ...]] = (
    ("jobs-light", "", "light", 1280, 640),
    ("jobs-dark", "", "dark", 1280, 640),
    ("job-light", "jobs/flights", "light", 1280, 1060),
    ("job-dark", "jobs/flights", "dark", 1280, 1060),
    ("job-phone", "jobs/flights", "light", 390, 844),
    ("replicas-light", "replicas", "light", 1280, 760),
)
"""The name of each picture, the view that it shows, its colours, and its size."""


def main(directory: Path) -> None:
    """Take the pictures, with a set of replicas and some jobs behind them."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        place = running.enter_context(tempfile.TemporaryDirectory())
        replicas = Set(Path(place) / "set", running)
        leader = replicas.leader()
        client = running.enter_context(milepost.Client(leader.url))
        _others(running, client, leader)
        live_through(running, client, leader, "flights", pause=0.6)
        browser = running.enter_context(chromium())
        for name, view, scheme, width, height in PICTURES:
            with browser.new_context(
                locale="en-GB", color_scheme=scheme, viewport={"width": width, "height": height}
            ) as context:
                screen = Screen(context.new_page())
                screen.open(f"{leader.url}/#/{view}")
                screen.page.screenshot(path=directory / f"{name}.png")


def _others(running: ExitStack, client: milepost.Client, leader: ServerProcess) -> None:
    """Let there be jobs in several states beside the one that is looked at."""
    for number, (job, batch) in enumerate((("clicks", 92), ("orders-eu", 1807), ("orders-us", 1764), ("prices", 310))):
        session = running.enter_context(driver(client, job, f"spark-{number + 4}"))
        session.store(job).campaign()
        for each in range(batch - 1, batch + 1):
            commit_batch(leader, job, each)
            time.sleep(0.5)
    with driver(client, "invoices", "spark-8") as session:
        session.store("invoices").campaign()
        commit_batch(leader, "invoices", 12)
        session.store("invoices").resign()
    with driver(client, "payments", "spark-9") as session:
        session.store("payments").campaign()
        commit_batch(leader, "payments", 77)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
