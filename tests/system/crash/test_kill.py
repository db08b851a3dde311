"""The server is killed at random points under eight writing clients, and started again each time."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from milepost.wire import API
from testbed.server import ServerProcess
from tests.system.crash.aftermath import inspect
from tests.system.crash.writer import SHARED_STORE, Grown, Writer

pytestmark = pytest.mark.long

POINTS = int(os.environ.get("MILEPOST_KILL_POINTS", "12"))
WRITERS = 8
MOST_ACTS_BETWEEN = 60
DURING_START = 0.15
"""How many of the kills hit a server that is only starting."""

PROGRESS_SECONDS = 120.0


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("MILEPOST_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    print(f"MILEPOST_KILL_SEED={seed} MILEPOST_KILL_POINTS={POINTS}")
    with ServerProcess(tmp_path, "--log-level", "warning") as server, ExitStack() as ends:
        server.start()
        writers = [Writer(server.url, number, seed) for number in range(WRITERS)]
        for writer in writers:
            ends.callback(writer.close)
        for writer in writers:
            writer.prepare()
        stop = threading.Event()
        with ThreadPoolExecutor(WRITERS) as threads:
            running = [threads.submit(writer.run, stop) for writer in writers]
            try:
                _kill_over_and_over(server, writers, running, random.Random(seed))
            finally:
                stop.set()
                if not server.running:
                    server.start()
            for ended in running:
                ended.result()
        for writer in writers:
            writer.verify()
            writer.replay()
            writer.verify()
        handles = sum(_read_whole(writer, writer.own_store) for writer in writers)
        handles += _read_whole(writers[0], SHARED_STORE)
        assert server.stop() == 0
    _no_version_twice([grown for writer in writers for grown in writer.grown])
    for writer in writers:
        _versions_only_rise(writer.grown)
    aftermath = inspect(tmp_path)
    assert aftermath.handles == handles
    tallies = [writer.wire.tally for writer in writers]
    cut, replayed = sum(tally.cut for tally in tallies), sum(tally.replayed for tally in tallies)
    print(
        f"{POINTS} kills: {sum(tally.answered for tally in tallies)} writes answered,"
        f" {sum(tally.repeated for tally in tallies)} of them in a later attempt, {cut} requests cut off,"
        f" {replayed} answers given again, {sum(tally.unknown for tally in tallies)} of unknown outcome; {aftermath}"
    )
    assert cut > 0, "no kill hit a request"
    assert replayed > 0, "no key was used again"


def _kill_over_and_over(
    server: ServerProcess, writers: list[Writer], running: list[Future[None]], chance: random.Random
) -> None:
    for point in range(POINTS):
        target = _answered(writers) + chance.randrange(MOST_ACTS_BETWEEN)
        end = time.monotonic() + PROGRESS_SECONDS
        while _answered(writers) < target:
            assert time.monotonic() < end, f"no progress before kill {point}"
            if wait(running, 0.002, FIRST_EXCEPTION).done:
                return
        time.sleep(chance.uniform(0.0, 0.03))
        server.kill()
        if chance.random() < DURING_START:
            server.start(until=None)
            time.sleep(chance.uniform(0.0, 2.0))
            server.kill()
        server.start()


def _answered(writers: list[Writer]) -> int:
    return sum(writer.wire.tally.answered for writer in writers)


def _read_whole(writer: Writer, store: str) -> int:
    """Every handle that is listed can be read, and is what its record says; how many there are."""
    listing = writer.wire.get(f"{API}/stores/{store}/handles").json()
    assert listing["corrupt"] == []
    assert listing["next"] is None
    for record in listing["handles"]:
        assert not record["removing"], record
        state = writer.wire.get(f"{API}/stores/{store}/handles/{record['name']}/state")
        assert state.status_code == 200, f"{store}/{record['name']}: {state.text[:300]}"
        assert len(state.content) == record["size"]
        assert hashlib.sha256(state.content).hexdigest() == record["sha256"]
    return len(listing["handles"])


def _no_version_twice(grown: list[Grown]) -> None:
    """No version was given out twice, and none was replaced twice."""
    versions = [(each.name, each.version) for each in grown]
    assert len(set(versions)) == len(versions)
    replaced = [(each.name, each.instead_of) for each in grown if each.instead_of is not None]
    assert len(set(replaced)) == len(replaced)


def _versions_only_rise(grown: list[Grown]) -> None:
    """What one client was told of a name, in that order; also across crashes, removals and the writes of others."""
    last: dict[str, int] = {}
    for each in grown:
        revision = _revision(each.version)
        assert revision > last.get(each.name, 0), each
        assert each.instead_of is None or revision > _revision(each.instead_of), each
        last[each.name] = revision


def _revision(version: str) -> int:
    """Opaque to clients; its last part is the revision at which the state was set."""
    return int(version.rpartition(".")[2])
