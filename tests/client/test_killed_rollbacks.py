"""A server that is killed during a rollback with a replace has done both, or neither, when it is there again."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import milepost
from testbed.ports import Port
from tests.client.conftest import serving

PAUSES = (0.0, 0.004, 0.03)
"""Seconds from the call to the kill. Whatever they hit, the test must hold."""
SOON = 2.0
PATIENT = 240.0


@pytest.mark.later
def test_files_and_handle_are_never_one_before_and_one_after(tmp_path: Path) -> None:
    port = Port()
    with ThreadPoolExecutor(1) as threads, ExitStack() as stack:
        running = stack.enter_context(serving(tmp_path, port=port))
        client = stack.enter_context(milepost.Client(running.url, timeout=PATIENT))
        store = stack.enter_context(client.session(holder="a", ttl=600)).store("flights")
        store.campaign()
        for batch in (b"0", b"1"):
            store.files.write("checkpoint/state", batch)
            store.files.write(f"checkpoint/commits/{batch.decode()}", b"v1")
        version = store.add_and_lock("job", b"1").version
        revisions = {b"%d" % each.batch: each.revision for each in store.files.snapshots().snapshots}
        at = b"1"

        def roll_back(to: bytes, timeout: float) -> int:
            replacement = milepost.StateReplacement("job", version, to)
            return store.files.roll_back(revisions[to], replace=replacement, timeout=timeout)

        for pause in PAUSES:
            to = b"0" if at == b"1" else b"1"
            rolling = threads.submit(roll_back, to, SOON)
            time.sleep(pause)
            running.process.kill()
            running.process.wait()
            error = rolling.exception(PATIENT)
            running = stack.enter_context(serving(tmp_path, port=port))
            record, files = store.read("job"), store.files.read("checkpoint/state")
            assert record == files
            assert record in ((at, to) if error else (to,))
            assert error is None or isinstance(error, milepost.MilepostError)
            at, version = record, store.get("job").version
        to = b"0" if at == b"1" else b"1"
        assert roll_back(to, PATIENT) == revisions[to]
        assert (store.read("job"), store.files.read("checkpoint/state")) == (to, to)
