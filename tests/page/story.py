"""A job with a past: a driver that was cut off, a savepoint, a restore, a batch that was committed again, a standby."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import milepost
from milepost.errors import MilepostError
from testbed.server import ServerProcess
from tests.page.files import begin_batch, commit_batch


def driver(client: milepost.Client, job: str, host: str) -> milepost.Session:
    """A session that describes its process as `milepost.spark.lead` does."""
    process = milepost.Process(host=host, pid=4711, application=f"app-{job}", ui=f"http://{host}:4040")
    return client.session(holder=f"{job}@{host}", process=process)


def live_through(
    running: ExitStack, client: milepost.Client, server: ServerProcess, job: str, pause: float = 0.0
) -> milepost.StateHandleStore:
    """Let a job be led by two drivers after each other, and return the store of the second one, which leads.

    Epoch 1 commits batches 0 to 3, and batch 3 is kept as a savepoint. Then its session is ended. Epoch 2 commits
    batches 4 to 6, is taken back to batch 4, commits batch 5 again, and begins batch 6. A third driver stands by until
    the end. After each batch come ``pause`` seconds.
    """

    def commit(batch: int, epoch: int) -> None:
        commit_batch(server, job, batch, epoch)
        time.sleep(pause)

    first = driver(client, job, "spark-1")
    store = first.store(job)
    store.campaign()
    for batch in range(4):
        commit(batch, 1)
    store.files.make_savepoint("before-upgrade")
    first.close()
    second = running.enter_context(driver(client, job, "spark-2"))
    store = second.store(job)
    store.campaign()
    for batch in (4, 5, 6):
        commit(batch, 2)
    back_to = next(each.revision for each in store.files.snapshots().snapshots if each.batch == 4)
    store.files.make_savepoint("with-a-bug")
    store.files.roll_back(back_to)
    commit(5, 2)
    begin_batch(server, job, 6, 2)
    store.report_rows("checkpoint", {4: 410, 5: 395, 6: 402})
    stand_by(running, driver(client, job, "spark-3"), job)
    return store


def stand_by(running: ExitStack, session: milepost.Session, job: str) -> None:
    """Let a session wait for the epoch of a job, until the block ends."""

    def wait() -> None:
        try:
            session.store(job).campaign(wait=None)
        except MilepostError:
            return  # the session ended, and the test with it

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    running.callback(waiting.join, 60.0)
    running.callback(session.close)
