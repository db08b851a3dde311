"""A server that is killed during a clone or a drop of a job has done all of it, or nothing, when it is there again."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import milepost
from milepost.cloning import planned
from milepost.job_record import JOB, RECORD_FILE, JobRecord, decode
from milepost.types import Clone
from testbed.ports import Port
from tests.client.cli.test_jobs import publish
from tests.client.conftest import serving

pytestmark = pytest.mark.later

ROUNDS = int(os.environ.get("MILEPOST_KILLED_ROUNDS", "2"))
SEED = int(os.environ.get("MILEPOST_KILLED_SEED", "1"))
LATEST = 0.06
"""The most seconds from a call to the kill, which are drawn. Whatever a kill hits, the test must hold."""
SOON = 2.0
PATIENT = 240.0


@pytest.mark.later
@pytest.mark.timeout(300 + 120 * ROUNDS)
def test_a_copy_is_there_as_a_whole_or_not_at_all_and_so_is_its_end(tmp_path: Path) -> None:
    chance, ends = random.Random(SEED), Counter[tuple[str, bool]]()
    port = Port()
    with ThreadPoolExecutor(1) as threads, ExitStack() as stack:
        running = stack.enter_context(serving(tmp_path, port=port))
        client = stack.enter_context(milepost.Client(running.url, timeout=PATIENT))
        session = stack.enter_context(client.session(holder="a", ttl=600))
        source, store = session.store("flights"), session.store("copy")
        source.campaign()
        record = JobRecord(job="f3" * 16, epoch=1)
        for batch in range(2):
            record = publish(source, record, batch)
        snapshot = source.files.snapshots().snapshots[-1].name

        state = record.cloned("flights", snapshot, "a1" * 16, 1).encode()

        def cloned(timeout: float) -> Clone:
            add = milepost.StateAddition(JOB, state)
            return store.files.clone("flights", snapshot, files={RECORD_FILE: state}, add=add, timeout=timeout)

        def is_whole() -> bool:
            """Whether the copy is there; it must not be there in part."""
            there = [
                store.exists(JOB) is not None,
                bool([*store.files.list()]),
                bool(store.files.snapshots().snapshots),
            ]
            assert there in ([True] * 3, [False] * 3)
            if all(there):
                assert store.files.read(RECORD_FILE) == store.read(JOB)
                assert decode(store.read(JOB)).published == 1
            return all(there)

        for _ in range(ROUNDS):
            epoch = store.campaign().epoch
            for act in (cloned, lambda _: store.drop_job(timeout=SOON)):
                before = is_whole()
                acting = threads.submit(act, SOON)
                time.sleep(chance.uniform(0.0, LATEST))
                running.process.kill()
                running.process.wait()
                error = acting.exception(PATIENT)
                running = stack.enter_context(serving(tmp_path, port=port))
                assert error is None or isinstance(error, milepost.MilepostError)
                after = is_whole()
                ends["clone" if act is cloned else "drop", after is not before] += 1
                if error is None:
                    assert after is not before
                if act is cloned and not after:
                    assert planned(store, source, snapshot).batch == 1, "nothing is in the way of another attempt"
                    cloned(PATIENT)
            if is_whole():
                store.drop_job(timeout=PATIENT)
            assert not is_whole()
            store.resign()
            assert client.job_info("copy").state == "dropped"
            assert store.current_epoch().epoch == epoch
    print(f"after a kill of the service, by act and whether it was done: {dict(ends)}")
