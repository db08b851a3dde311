"""How long it takes until another driver has the epoch, and until its query has done a batch with much state."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.locations.cases import CASES
from benchmarks.locations.contenders import MAINTENANCE_SECONDS, Contender, give, start
from benchmarks.locations.figures import alone, compared
from benchmarks.locations.places import LOCAL, Milepost, Place
from milepost import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE = CASES["state-300MB-rocksdb"]
_BATCHES = 12
"""Spark makes a snapshot of RocksDB's state after ten batches with a changelog."""
_TTL_SECONDS = 5.0
_WAIT_SECONDS = 60.0


def restarted(spark: SparkSession, places: Mapping[str, Place], directory: Path, rounds: int) -> dict[str, Any]:
    """Start the query with the most state again and again, each place in turn, and tell how long the first batch takes.

    The time goes from before the start, for Milepost from before the request for the epoch, which is free, until the
    batch is done. Nothing of the state is kept from one start to the next: it is read from the checkpoint.
    """
    inputs = {name: directory / "in" / "take-over" / name for name in places}
    for name, place in places.items():
        with place.checkpoint(spark, "take-over") as checkpoint:
            contender = Contender(place, inputs[name], start(spark, CASE, inputs[name], checkpoint))
            for number in range(_BATCHES):
                contender.run(CASE.lines(number), number)
            time.sleep(2 * MAINTENANCE_SECONDS)  # the snapshots get into the checkpoint
            contender.query.stop()
    order, took = random.Random(1), {name: list[float]() for name in places}
    counted = {name: Counter[str]() for name in places}
    for number in range(_BATCHES, _BATCHES + rounds + 1):  # the first round only warms up
        for name in order.sample(list(places), len(places)):
            give(inputs[name], CASE.lines(number), number)
            before, began = places[name].counted(), time.monotonic()
            with places[name].checkpoint(spark, "take-over") as checkpoint:
                contender = Contender(places[name], inputs[name], start(spark, CASE, inputs[name], checkpoint))
                contender.wait(number)
                took[name].append((time.monotonic() - began) * 1000)
                contender.query.stop()
            counted[name].update({key: count - before[key] for key, count in places[name].counted().items()})
    told: dict[str, Any] = {"case": "take-over: start to first batch", "rounds": rounds}
    base = took[LOCAL][1:]
    for name, times in took.items():
        told[name] = alone(times[1:]) if name == LOCAL else compared(times[1:], base)
        if counted[name]:
            told[name]["a start"] = {key: count / (rounds + 1) for key, count in sorted(counted[name].items())}
    return told


def epochs(places: Mapping[str, Place], rounds: int) -> dict[str, Any]:
    """Kill the process that holds an epoch, and tell how long a driver that stands by waits for it, beyond the TTL."""
    told: dict[str, Any] = {"case": "take-over: kill to epoch, beyond the session's TTL", "ttl s": _TTL_SECONDS}
    for name, place in places.items():
        if isinstance(place, Milepost):
            waits = sorted(_waited(place.urls, number) - _TTL_SECONDS for number in range(rounds))
            told[name] = {"p50 s": round(statistics.median(waits), 3), "max s": round(waits[-1], 3)}
    return told


def _waited(urls: Sequence[str], number: int) -> float:
    """Return how long it took from SIGKILL to the grant."""
    store = f"epochs-{number}"
    command = [sys.executable, "-m", "benchmarks.locations.takeover", store, str(_TTL_SECONDS), *urls]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder,
        Client(urls) as client,
    ):
        try:
            if holder.stdout is None or not holder.stdout.readline().startswith("leading"):
                raise SystemExit("the process that was to be killed does not lead")
            standby = client.session("standby", ttl=_TTL_SECONDS).store(store)
            holder.kill()
            killed = time.monotonic()
            standby.campaign(wait=_WAIT_SECONDS)
            return time.monotonic() - killed
        finally:
            holder.kill()


def hold(store: str, ttl: float, urls: Sequence[str]) -> None:
    """Lead until somebody kills this process."""
    with Client(urls) as client:
        client.session("killed", ttl=ttl).store(store).campaign()
        print("leading", flush=True)
        time.sleep(10 * _WAIT_SECONDS)


if __name__ == "__main__":
    hold(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
