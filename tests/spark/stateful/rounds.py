"""Rounds of faults at a job with managed state: drivers are killed or frozen at a step, and divide the state anew."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet

import milepost
from milepost.spark.output.manifest import pages
from milepost.spark.output.sink import published_page
from milepost.spark.record import JOB, decode
from milepost.state.processors.reading import StateReader
from milepost.state.processors.snapshot import snapshots_of
from milepost.state.store import LocalFiles
from tests.spark.stateful.program import IN_A_BATCH, STATE, Setup
from tests.spark.stateful.texts import write_texts
from tests.spark.under_test.process import Driver


@dataclass(frozen=True)
class Fault:
    """What becomes of a driver: where it stands still, for the how-manieth time, and whether it is killed there or
    frozen until its successor has published. ``failures`` tasks of it fail and are run again.
    """

    point: str
    passing: int
    frozen: bool
    partitions: int
    failures: int = 0


def faults(seed: int, count: int) -> list[Fault]:
    """Draw faults."""
    source = random.Random(seed)
    return [
        Fault(
            source.choice(IN_A_BATCH),
            source.randint(1, 2),
            source.random() < 0.3,
            source.choice((2, 3, 5, 8)),
            source.choice((0, 0, 1, 2)),
        )
        for _ in range(count)
    ]


@dataclass
class Job:
    """A job, and the text that it reads."""

    directory: Path
    url: str
    java_options: str
    files: int
    name: str = field(default_factory=lambda: f"rounds-{secrets.token_hex(6)}")

    def __post_init__(self) -> None:
        self.texts = write_texts(self.directory / "texts", self.files, 15)
        for name in ("failures", "scratch"):
            (self.directory / name).mkdir()
        self._drivers = 0

    def driver(self, fault: Fault) -> Driver:
        """Start a driver."""
        self._drivers += 1
        for _ in range(fault.failures):
            (self.directory / "failures" / secrets.token_hex(4)).touch()
        place = self.directory / f"driver-{self._drivers}"
        return Driver(
            Setup(
                url=self.url,
                store=self.name,
                directory=str(self.directory),
                partitions=fault.partitions,
                events=f"{place}.jsonl",
                go=f"{place}.go",
                java_options=self.java_options,
                pause=fault.point,
                pause_at=fault.passing,
            ),
            "tests.spark.stateful.program",
        )

    def play(self, planned: list[Fault]) -> int:
        """Let these faults come one after the other, then let the job end; return how many zombies were refused."""
        refused = 0
        zombie: Driver | None = None
        with ExitStack() as running:
            for fault in [*planned, Fault("", 1, False, 4)]:
                driver = running.enter_context(self.driver(fault))
                driver.wait_for("published", "paused", "finished")
                if zombie is not None:
                    zombie.thaw()
                    ended = zombie.wait_for("ended")
                    assert ended["error"] in ("Fenced", "SessionExpired"), ended
                    zombie, refused = None, refused + 1
                if driver.wait_for("paused", "finished")["event"] == "finished":
                    driver.wait()
                elif fault.frozen:
                    driver.freeze()
                    zombie = driver
                else:
                    driver.kill()
        self.check()
        return refused

    def check(self) -> None:
        """Check that each batch was published once, with what a count without faults gives; and so the state."""
        with milepost.Client(self.url) as client:
            record = client.store(self.name).read(JOB)
        out = self.directory / "out"
        newest = published_page(decode(record).manifest)
        named = [one for page in pages(newest, lambda file: (out / file).read_bytes()) for one in page.batches]
        assert sorted(one.batch for one in named) == list(range(self.files))
        files = LocalFiles(self.directory / STATE / decode(record).job)
        reader = StateReader(files, snapshots_of(record)["state"])
        assert reader.version == self.files
        so_far: Counter[str] = Counter()
        for batch in sorted(named, key=lambda one: one.batch):
            words = self.texts[batch.batch]
            so_far.update(words)
            rows: list[tuple[str, int]] = []
            for file, _ in batch.files:
                table = pyarrow.parquet.ParquetFile(out / batch.directory / file).read()
                rows += [(row["word"], row["count"]) for row in table.to_pylist()]
            assert sorted(rows) == sorted((word, so_far[word]) for word in words), f"batch {batch.batch}"
            entries = reader.entries("count", version=batch.batch + 1)
            found = [(one.key[0], one.value[0]) for one in entries]
            assert sorted(found) == sorted(so_far.items()), f"snapshot {batch.batch + 1}"
