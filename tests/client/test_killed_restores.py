"""A job whose restore is cut short by a kill, of the caller or of the service, is as before it or as after it.

``make test-killed`` has 20 rounds of each kill. The moment of a kill is drawn within the time that a restore takes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import milepost
import milepost.restoring
from testbed.ports import Port
from tests.client.conftest import serving
from tests.client.published_job import LAST, PATIENT, WANTED, begin, state_of

ROUNDS = int(os.environ.get("MILEPOST_KILLED_ROUNDS", "2"))
SEED = int(os.environ.get("MILEPOST_KILLED_SEED", "1"))
CALLER = """
import sys, milepost
from milepost.restoring import restore
url, name, snapshot = sys.argv[1:]
with milepost.Client(url, timeout=120) as client, client.session(holder="restorer", ttl=15) as session:
    store = session.store(name)
    store.campaign(120.0)
    print("begins", flush=True)
    restore(store, snapshot)
    print("done", flush=True)  # the session has not ended yet
"""


def go_on(client: milepost.Client, name: str, snapshot: str) -> None:
    """Whoever comes next gets the epoch, and can restore the job."""
    with client.session(holder="next", ttl=600) as session:
        store = session.store(name)
        store.campaign(PATIENT)
        milepost.restoring.restore(store, snapshot)
    assert state_of(client, name) == WANTED


@pytest.mark.later
@pytest.mark.timeout(300 + 120 * ROUNDS)
def test_a_killed_restore_has_restored_the_whole_job_or_nothing(tmp_path: Path) -> None:
    chance, ends = random.Random(SEED), Counter[tuple[str, int]]()
    port = Port()
    with ExitStack() as opened:
        running = opened.enter_context(serving(tmp_path, port=port))
        client = opened.enter_context(milepost.Client(running.url, timeout=PATIENT))
        takes = 0.0
        for number in range(2 * ROUNDS + 1):
            victim = "nobody" if number == 0 else ("service", "caller")[number % 2]
            name = f"job-{number}"
            snapshot = begin(client, name)
            command = [sys.executable, "-c", CALLER, running.url, name, snapshot]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as caller:
                assert caller.stdout is not None
                assert caller.stdout.readline() == "begins\n"
                began = time.monotonic()
                if victim != "nobody":
                    time.sleep(chance.uniform(0.0, takes))
                if victim == "service":
                    running.process.kill()
                    running.process.wait()
                    running = opened.enter_context(serving(tmp_path, port=port))
                elif victim == "caller":
                    caller.kill()
                done = caller.stdout.readline() == "done\n"
                takes = takes or time.monotonic() - began
            at = state_of(client, name)
            assert at in ((WANTED,) if done else (WANTED, LAST)), (victim, at)
            ends[victim, at] += 1
            go_on(client, name, snapshot)
    print(f"a restore takes {takes:.3f} s; jobs after a kill, by victim and batch: {dict(ends)}")
