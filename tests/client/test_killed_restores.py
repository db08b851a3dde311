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
from milepost.job_record import JOB, RECORD_FILE, JobRecord, decode
from testbed.ports import Port
from tests.client.conftest import serving

ROUNDS = int(os.environ.get("MILEPOST_KILLED_ROUNDS", "2"))
SEED = int(os.environ.get("MILEPOST_KILLED_SEED", "1"))
LAST, WANTED = 3, 1
PATIENT = 240.0
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


def begin(client: milepost.Client, name: str) -> str:
    """Make a job that has published four batches; the name of the snapshot of batch 1."""
    with client.session(holder="driver", ttl=600) as session:
        store = session.store(name)
        record = JobRecord(job="f3" * 16, epoch=store.campaign(PATIENT).epoch)
        version: str | None = None
        for batch in range(LAST + 1):
            store.files.write(f"checkpoint/offsets/{batch}", b"v1")
            store.files.write("checkpoint/state/0/0/state", b"%d" % batch)
            record = record.publishing(batch, {"batch": batch}, record.epoch)
            state = record.encode()
            made = store.add_and_lock(JOB, state) if version is None else store.replace(JOB, version, state)
            version = made.version
            store.files.write(RECORD_FILE, state)
            store.files.write(f"checkpoint/commits/{batch}", b"v1")
        store.resign()
        (found,) = (each.name for each in store.files.snapshots().snapshots if each.batch == WANTED)
        return found


def state_of(client: milepost.Client, name: str) -> int:
    """The batch at which the job is, of which each part must say the same.

    The restore of a caller that was just killed may still be committed. So the parts count only if the record has the
    same version before and after they are read. Each job is restored at most once meanwhile.
    """
    store = client.store(name)
    while True:
        version = store.get(JOB).version
        record = decode(store.read(JOB))
        committed = {int(file.path.rpartition("/")[2]) for file in store.files.list("checkpoint/commits")}
        parts = (record.published, record.manifest, int(store.files.read("checkpoint/state/0/0/state")), max(committed))
        if store.get(JOB).version == version:
            break
    assert parts == (record.published, {"batch": record.published}, record.published, record.published)
    assert committed == {*range(record.published + 1)}
    return record.published


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
    with Port() as port, ExitStack() as opened:
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
