"""A job whose rescale is cut short by a kill, of the command or of the service, goes on with its whole state, as before
the rescale or as after it.

``make test-killed`` has 20 rounds. The moment of a kill is drawn within the time for which the job record
notes a rescale.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial

import pytest

import milepost
from milepost.job_record import JOB, decode
from milepost.restoring import newest_batch
from milepost.store import StateHandleStore
from testbed.server import ServerProcess
from tests.spark.jobs import Place, wait_until
from tests.spark.test_repartition import check_output, job, run

__all__ = ["job"]  # the fixture

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROUNDS = int(os.environ.get("MILEPOST_KILLED_ROUNDS", "1"))
SEED = int(os.environ.get("MILEPOST_KILLED_SEED", "1"))
COMMAND_SECONDS = 240


def partitions_of(store: StateHandleStore) -> int:
    """The number of partitions that Spark's log has for the newest batch."""
    newest = newest_batch(store.files, "checkpoint/offsets")
    conf = json.loads(store.files.read(f"checkpoint/offsets/{newest}").decode().splitlines()[1])["conf"]
    return int(conf["spark.sql.shuffle.partitions"])


@pytest.mark.timeout(600 + 600 * ROUNDS)
def test_a_killed_rescale_has_rescaled_the_whole_job_or_nothing(
    job: Place, service: ServerProcess, client: milepost.Client
) -> None:
    chance, ends = random.Random(SEED), Counter[tuple[str, bool]]()
    store = client.store(job.name)

    def noted() -> bool:
        return decode(store.read(JOB)).rescales_at is not None

    run(job)
    files, partitions, takes = 2, partitions_of(store), 0.0
    without: list[int] = []
    for number in range(2 * ROUNDS + 1):
        victim = "nobody" if number == 0 else ("command", "service")[number % 2]
        wanted, batch = partitions % 5 + 1, decode(store.read(JOB)).published + 1
        program = os.path.join(os.path.dirname(sys.executable), "milepost")
        command = [program, "-u", job.url, "jobs", "rescale", job.name, str(wanted)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as rescaling:
            wait_until(partial(lambda process: noted() or process.poll() is not None, rescaling), COMMAND_SECONDS)
            began = time.monotonic()
            if victim == "nobody":
                wait_until(lambda: not noted())
                takes = time.monotonic() - began
            else:
                time.sleep(chance.uniform(0.0, takes))
            if victim == "command":
                os.killpg(rescaling.pid, signal.SIGKILL)
            elif victim == "service":
                service.kill()
                service.start()
            done = rescaling.wait(COMMAND_SECONDS) == 0
        files += 1
        job.add_input(files)
        run(job)
        assert not noted()
        before, partitions = partitions, partitions_of(store)
        rescaled = partitions == wanted
        assert partitions in ((wanted,) if done else (wanted, before)), (victim, before, wanted, partitions)
        without += [batch] if rescaled else []
        check_output(job, *without)
        ends[victim, rescaled] += 1
    print(f"a rescale is noted for {takes:.1f} s; jobs after a kill, by victim and whether rescaled: {dict(ends)}")
