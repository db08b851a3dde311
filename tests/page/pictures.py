"""Take the pictures of the page for the documentation: ``python -m tests.page.pictures DIRECTORY``."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal

import milepost
from testbed.server import ServerProcess
from tests.page.chromium import chromium
from tests.page.files import commit_batch
from tests.page.screen import Screen
from tests.wire.webhdfs.replicas import Set

Scheme = Literal["light", "dark"]

PICTURES: Final[tuple[tuple[str, str, Scheme], ...]] = (
    ("overview-light", "", "light"),
    ("stores-light", "stores", "light"),
    ("stores-dark", "stores", "dark"),
    ("store-dark", "stores/flights", "dark"),
)
"""The name of each picture, the view that it shows, and its colours."""


def main(directory: Path) -> None:
    """Take the pictures, with a set of replicas and some jobs behind them."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        place = running.enter_context(tempfile.TemporaryDirectory())
        replicas = Set(Path(place) / "set", running)
        leader = replicas.leader()
        client = running.enter_context(milepost.Client(leader.url))
        for job, batch in (("flights", 41), ("orders", 1807), ("clicks", 92)):
            _run(running, client, leader, job, batch)
        browser = running.enter_context(chromium())
        for name, view, scheme in PICTURES:
            with browser.new_context(
                locale="en-GB", color_scheme=scheme, viewport={"width": 1100, "height": 900 if not view else 640}
            ) as context:
                screen = Screen(context.new_page())
                screen.open(f"{leader.url}/#/{view}")
                screen.page.screenshot(path=directory / f"{name}.png")


def _run(running: ExitStack, client: milepost.Client, leader: ServerProcess, job: str, batch: int) -> None:
    """Let there be what a job leaves in a store."""
    session = running.enter_context(client.session(holder=f"{job}-driver-7d9f"))
    store = session.store(job)
    store.campaign()
    store.add_and_lock("job", b"{}", labels={"published": str(batch), "epoch": "1"})
    for number in range(batch - 3, batch + 1):
        commit_batch(leader, job, number)
    store.files.make_savepoint("before-upgrade")
    for model in ("model-a", "model-b"):
        store.add_and_lock(model, b"x" * 30_000, labels={"trained": f"batch {batch}"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
