"""A task that runs at fixed times, on one of several machines, and never twice for the same time.

Start it on as many machines as you like. One leads; when it dies, the next one goes on.
"""

import argparse
import time

import milepost

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--name", default="nightly-report")
options.add_argument("--every", type=int, default=60, help="seconds from one time to the next")
options.add_argument("--runs", type=int, default=0, help="end after so many; 0: never")
given = options.parse_args()


def task(due: int) -> None:
    """Do what is to be done; here, say so."""
    print(f"running for {time.strftime('%H:%M:%S', time.gmtime(due))}", flush=True)


def version_at_start(store: milepost.StateHandleStore) -> str:
    """Return the version of what was noted last: the time for which the task was begun."""
    if store.exists("begun") is None:
        return store.add_and_lock("begun", b"0").version
    return store.get_and_lock("begun").version


with milepost.Client() as client, client.session("elected cron") as session:  # at MILEPOST_URL
    store = session.store(given.name)
    store.campaign(wait=None)  # stand by until the one that leads is gone
    version, runs = version_at_start(store), 0
    while not given.runs or runs < given.runs:
        due = int(time.time()) // given.every * given.every
        if due > int(store.read("begun")):
            # Note it before it is run: a crash in between leaves this time out, and never runs it twice. An older
            # leader that wakes here is told Fenced.
            version = store.replace("begun", version, str(due).encode()).version
            task(due)
            runs += 1
        time.sleep(min(1.0, given.every / 10))
