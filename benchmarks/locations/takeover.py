"""How long it takes until another driver has the epoch, and until its query has done a batch with much state."""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.locations.cases import CASES
from benchmarks.locations.contenders import MAINTENANCE_SECONDS, Contender, give, spark_session, start
from benchmarks.locations.figures import alone, compared
from benchmarks.locations.places import LOCAL, Milepost, Place
from milepost import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE = CASES["state-300MB-rocksdb"]
_JOB = "take-over"
_BATCHES = 12
"""Spark makes a snapshot of RocksDB's state after ten batches with a changelog."""
_TTL_SECONDS = 5.0
_WAIT_SECONDS = 60.0
_DRIVER_SECONDS = 300.0
_STANDING_BY_SECONDS = 5.0
_OTHERS = "MILEPOST_BENCHMARK_OTHER_PROCESSORS"
"""What tells the drivers the processors that are theirs alone."""


def apart() -> None:
    """Keep this process, and what it starts, on half of its processors; the drivers that `taken_over` times move away.

    That is as if each of them had a machine of its own, with no processors but those.
    """
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        raise SystemExit("there is only one processor: nothing can be apart")
    half = len(processors) // 2
    os.environ[_OTHERS] = ",".join(map(str, processors[half:]))
    os.sched_setaffinity(0, processors[:half])


def taken_over(spark: SparkSession, places: Mapping[str, Place], directory: Path, rounds: int) -> dict[str, Any]:
    """Let one driver after the other go on with the most state, each place in turn, and tell how long the first batch
    takes.

    Each driver is a process of its own, as after a crash, whose Spark is up and has run nothing yet. The time goes
    from when it may go on, which for Milepost is when the epoch is given up for which it stands by, until the batch is
    done.
    """
    inputs = {name: directory / "in" / _JOB / name for name in places}
    for name, place in places.items():
        with place.checkpoint(spark, _JOB) as checkpoint:
            contender = Contender(place, inputs[name], start(spark, CASE, inputs[name], checkpoint))
            for number in range(_BATCHES):
                contender.run(CASE.lines(number), number)
            time.sleep(2 * MAINTENANCE_SECONDS)  # the snapshots get into the checkpoint
            contender.query.stop()
    order, took = random.Random(1), {name: list[float]() for name in places}
    counted = {name: Counter[str]() for name in places}
    for number in range(_BATCHES, _BATCHES + rounds):
        for name in order.sample(list(places), len(places)):
            give(inputs[name], CASE.lines(number), number)
            before = places[name].counted()
            took[name].append(_first_batch(places[name], inputs[name], number))
            counted[name].update({key: count - before[key] for key, count in places[name].counted().items()})
    told: dict[str, Any] = {"case": "take-over: start to first batch", "rounds": rounds}
    for name, times in took.items():
        told[name] = alone(times) if name == LOCAL else compared(times, took[LOCAL])
        if counted[name]:
            told[name]["a start"] = {key: count / rounds for key, count in sorted(counted[name].items())}
    return told


def _first_batch(place: Place, inputs: Path, number: int) -> float:
    """Return how many milliseconds a new driver takes from when it may go on until it has done this batch."""
    spawn = multiprocessing.get_context("spawn")
    mine, its = spawn.Pipe()
    driver = spawn.Process(target=_drive, args=(place, inputs, number, its))
    try:
        with place.held(_JOB):
            driver.start()
            _heard(mine)
            time.sleep(_STANDING_BY_SECONDS)
            began = time.monotonic()
        mine.send(began)
        took = _heard(mine) - began
        driver.join(_DRIVER_SECONDS)
    finally:
        driver.kill()
    return took * 1000


def _heard(line: Connection[float, float]) -> float:
    if not line.poll(_DRIVER_SECONDS):
        raise SystemExit(f"a driver did not get on within {_DRIVER_SECONDS:g} s")
    return line.recv()


def _drive(place: Place, inputs: Path, number: int, line: Connection[float, float]) -> None:
    """Be that driver: say when Spark is up, then go on with the query, and say when the batch was done."""
    if _OTHERS in os.environ:
        os.sched_setaffinity(0, map(int, os.environ[_OTHERS].split(",")))
    spark = spark_session({"": place})
    line.send(time.monotonic())
    with place.checkpoint(spark, _JOB) as checkpoint:
        line.recv()
        contender = Contender(place, inputs, start(spark, CASE, inputs, checkpoint))
        contender.wait(number)
        line.send(time.monotonic())
        contender.query.stop()
    spark.stop()


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
