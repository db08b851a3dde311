"""Hadoop's own clients write on while leaders are killed: what was acknowledged is whole, each rename happened once.

MILEPOST_KILLS says how many leaders are killed; without it, a few.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from milepost import Client
from milepost.core.checkpoint_location import checkpoint_location
from testbed.java import java
from testbed.replicated import ReplicatedTestbed

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("MILEPOST_KILLS", "3"))
WRITERS = 8
BETWEEN_SECONDS = (0.5, 3.0)
END_SECONDS = 240.0


class Writers:
    """The Java program beside this file, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[list[str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.split())

    def close(self) -> None:
        """Read to the end of what a program printed that was killed."""
        self._reader.join()

    def ask(self, question: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()

    def said(self, *kinds: str) -> list[list[str]]:
        """The lines that begin with one of these words."""
        return [line for line in list(self.lines) if line and line[0] in kinds]

    def until(self, count: int, *kinds: str) -> None:
        """Wait until there are so many of them."""
        end = time.monotonic() + END_SECONDS
        while len(self.said(*kinds)) < count:
            assert self._process.poll() is None, self.lines[-5:]
            assert time.monotonic() < end, (kinds, len(self.said(*kinds)), count, self.lines[-5:])
            time.sleep(0.05)


@contextmanager
def writing(url: str, settings: dict[str, str], log: Path) -> Iterator[Writers]:
    """The program at work; it is ended with the block."""
    jars = Path(pyspark.__file__).parent / "jars"
    source = Path(__file__).with_name("Writers.java")
    given = [f"{name}={value}" for name, value in settings.items()]
    command = [str(java()), "-Xmx512m", "-cp", f"{jars}/*", str(source), url, str(WRITERS), *given]
    pipe = subprocess.PIPE
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, bufsize=1) as process,
    ):
        writers = Writers(process)
        try:
            yield writers
        finally:
            process.kill()
            writers.close()


def test_what_was_acknowledged_is_whole_and_renamed_once(tmp_path: Path) -> None:
    chosen = random.Random(KILLS)
    with ReplicatedTestbed(tmp_path / "replicas") as deployment:
        deployment.start()
        with Client(deployment.urls, timeout=60.0) as client, client.session(holder="writers", ttl=60) as session:
            store = session.store("flights")
            epoch = store.campaign().epoch
            where = checkpoint_location(deployment.urls, "flights", epoch)
            with writing(where.url, dict(where.settings), tmp_path / "writers.log") as writers:
                writers.until(WRITERS, "put")
                for _ in range(KILLS):
                    acknowledged = len(writers.said("put"))
                    time.sleep(chosen.uniform(*BETWEEN_SECONDS))
                    leader = deployment.leader()
                    leader.kill()
                    leader.start(until=None)
                    writers.until(acknowledged + 3 * WRITERS, "put")
                deployment.mend()
                failed, acknowledged = len(writers.said("failed")), len(writers.said("put"))
                writers.until(acknowledged + 6 * WRITERS, "put")
                assert len(writers.said("failed")) - failed <= WRITERS, "only what was under way may fail still"
                writers.ask("end")
                writers.until(1, "ended", "stuck")
                assert not writers.said("stuck", "broken")
                puts, won = writers.said("put"), writers.said("won")
                for _, writer, number, size in puts:
                    writers.ask(f"read w{writer}/{number} {size} {int(writer) * 1_000_000 + int(number)}")
                for _, writer, number in won:
                    pair = f"pair{int(writer) % (WRITERS // 2)}/{number}"
                    writers.ask(f"read {pair} 100 {int(writer) * 1_000_000 + int(number)}")
                writers.until(len(puts) + len(won), "whole", "other", "missing")
                assert not writers.said("other", "missing")
                twice = Counter((int(writer) % (WRITERS // 2), number) for _, writer, number in won)
                assert max(twice.values()) == 1
                reasons = Counter(" ".join(words[3:])[:100] for words in writers.said("failed"))
                print(f"{KILLS} leaders killed; acknowledged: {len(puts)} files, {len(won)} renames; failed: {reasons}")
            assert store.files.verify(digests=True, timeout=120).intact
