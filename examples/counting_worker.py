"""A worker in plain Python that counts, saves what it has, and goes on there when it is started again.

Start it, kill it with ``kill -9``, start it again. Start a second one meanwhile: it waits, and takes over.
"""

import argparse
import json
import time

import milepost

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--job", default="counting")
options.add_argument("--until", type=int, default=1000, help="the number at which the work is done")
options.add_argument("--pause", type=float, default=0.1, help="seconds that each step takes")
given = options.parse_args()

with milepost.Client() as client, client.session("counting worker") as session:  # at MILEPOST_URL
    store = session.store(given.job)
    store.campaign(wait=None)  # another worker leads? Then this one waits, for as long as it takes
    registry = milepost.checkpoints.CheckpointRegistry(store, retain=3)
    recovery = registry.recover()  # the newest checkpoint whose bytes are whole
    state = json.loads(recovery.state) if recovery.latest else {"number": 0, "sum": 0}
    print(f"epoch {store.epoch}: going on at {state['number']}", flush=True)
    while state["number"] < given.until:
        number = state["number"] + 1
        state = {"number": number, "sum": state["sum"] + number}
        time.sleep(given.pause)
        registry.add(number, json.dumps(state).encode())  # raises Fenced once another worker leads
    print(f"done: the sum of the numbers up to {state['number']} is {state['sum']}")
