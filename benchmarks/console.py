"""How long the console takes to show all jobs, and one of them, of a full service, against one with a single job.

    python -m benchmarks.console [--jobs 100] [--handles 100000] [--rounds 5]

Two servers run side by side, and one Chromium opens each in turn, with an empty cache. The time ends when the console
says that what it shows is fresh and the last job is on the screen. Told are medians, and their ratio within this run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, expect

from milepost import Client
from testbed.server import ServerProcess
from tests.page.chromium import ChromiumAbsent, chromium

_AT_ONCE = 8
_DEADLINE_MS = 60_000.0


def fill(url: str, jobs: int, handles: int) -> None:
    """Make jobs, each with a driver, a batch, and its part of the handles."""
    with Client(url) as client, client.session("driver", ttl=3600) as session, ThreadPoolExecutor(_AT_ONCE) as threads:

        def job(number: int) -> None:
            store = session.store(f"job-{number:04}")
            store.campaign()
            store.files.write("checkpoint/offsets/0", b"v1")
            store.files.write("checkpoint/commits/0", b"v1")
            for handle in range(handles // jobs):
                store.add_and_lock(f"checkpoint-{handle}", b"x" * 100)

        list(threads.map(job, range(jobs)))


def shown(browser: Browser, address: str, last: str) -> float:
    """Return the milliseconds until a page shows ``last`` and is fresh."""
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(_DEADLINE_MS)
        began = time.perf_counter()
        page.goto(address)
        expect(page.get_by_role("status")).to_have_text("Live", timeout=_DEADLINE_MS)
        expect(page.get_by_text(last, exact=True).first).to_be_visible(timeout=_DEADLINE_MS)
        return (time.perf_counter() - began) * 1000


def served(opened: ExitStack, jobs: int, handles: int) -> str:
    """Start a server, fill it with ``jobs`` jobs and ``handles`` handles, and return its URL."""
    directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
    server = opened.enter_context(ServerProcess(directory, "--log-level", "warning")).start()
    fill(server.url, jobs, handles)
    return server.url


def views(full: str, small: str, jobs: int) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each view: its name, and for the full and the small service its address and what it shows last."""
    yield "all jobs", [(full, f"job-{jobs - 1:04}"), (small, "job-0000")]
    yield "a job", [(f"{full}/#/jobs/job-0000", "job-0000"), (f"{small}/#/jobs/job-0000", "job-0000")]


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--handles", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with ExitStack() as opened:
        try:
            browser = opened.enter_context(chromium())
        except ChromiumAbsent as absent:
            sys.exit(f"no Chromium: {absent}")
        full, small = served(opened, given.jobs, given.handles), served(opened, 1, 1)
        for name, places in views(full, small, given.jobs):
            measure = [partial(shown, browser, address, last) for address, last in places]
            rounds = [[each() for each in measure] for _ in range(given.rounds)]
            many, few = (statistics.median(column) for column in zip(*rounds, strict=True))
            size = f"{given.jobs} jobs and {given.handles} handles"
            print(f"{name}: {many:.0f} ms with {size}, {many / few:.2f} times one job")
    return 0


if __name__ == "__main__":
    sys.exit(main())
