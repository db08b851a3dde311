"""Rounds of faults at a job with managed state: drivers and tasks are killed or frozen, and the state divided anew."""

from __future__ import annotations

import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import milepost
from milepost.job_record import JOB, decode
from milepost.state.processors.reading import StateReader
from milepost.state.processors.snapshot import snapshots_of
from milepost.state.store import LocalFiles, StateFiles, TreeFiles
from milepost.state.store.files.contract import FilesWithin
from tests.spark.stateful import independent
from tests.spark.stateful.orders import BEFORE_LINK, FAILS, STEPS, Orders, Standing, is_worker
from tests.spark.stateful.program import IN_A_BATCH, STATE, Setup
from tests.spark.stateful.texts import write_texts
from tests.spark.under_test.process import Driver

LAYOUTS = (8, 3, 13)
TEXTS = 200
"""The texts that a job may take: one a batch, and a driver processes few before its fault."""
_SECONDS = 300.0


@dataclass(frozen=True)
class Fault:
    """What becomes of a driver, after all that becomes of its ``tasks``: these fail, or are killed at a step. Each is a
    round.

    ``point`` is where it stands still for the ``passing``-th time, or the step at which one of its tasks does. There it
    is killed, or ``frozen`` until its successor has published; the task then goes on in either case.
    """

    point: str
    passing: int
    frozen: bool
    partitions: int
    tasks: tuple[str, ...] = ()
    rocksdb: bool = False
    reuse: bool = True


def faults(seed: int, rounds: int, tree: bool = False) -> list[Fault]:
    """Draw faults that are so many rounds. The layouts go round."""
    source = random.Random(seed)
    steps = tuple(step for step in STEPS if step != BEFORE_LINK or not tree)
    found: list[Fault] = []
    while rounds > 0:
        tasks = tuple(source.choice((FAILS, *steps)) for _ in range(min(source.choice((1, 2, 3)), rounds - 1)))
        rounds -= len(tasks) + 1
        partitions = LAYOUTS[(seed + len(found)) % len(LAYOUTS)]
        found.append(
            Fault(
                point=source.choice(IN_A_BATCH if source.random() < 0.5 else steps),
                passing=source.randint(1, 2),
                frozen=source.random() < 0.35,
                partitions=partitions,
                tasks=tasks,
                rocksdb=source.random() < 0.3,
                reuse=partitions > min(LAYOUTS) or source.random() < 0.8,  # a new worker for each task takes its time
            )
        )
    return found


@dataclass
class Tally:
    """What came of the rounds: how often what was done to whom, and how it ended."""

    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))


@dataclass
class Left:
    """A driver that is over: frozen, or dead with a task of it that stands still."""

    driver: Driver
    orders: Orders
    frozen: bool
    task: Standing | None


@dataclass
class Job:
    """A job, and the text that it reads. The query has a column more after half of its rounds."""

    directory: Path
    url: str
    java_options: str
    tree: bool = False
    keep: int = 100
    spark: dict[str, str] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"rounds-{secrets.token_hex(6)}")
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._texts = write_texts(self.directory / "later", TEXTS, 15)
        for name in ("texts", "scratch"):
            (self.directory / name).mkdir()
        self._drivers = self._fed = 0
        self.feed(1)

    def feed(self, files: int) -> None:
        """Let the job have so many texts in all."""
        for number in range(self._fed, files):
            name = f"{number:03}.txt"
            (self.directory / "later" / name).rename(self.directory / "texts" / name)
            self._fed = number + 1

    def start(self, fault: Fault, letters: bool) -> Driver:
        """Start a driver, which does not lead before there is a file ``lead`` beside its events."""
        self._drivers += 1
        place = self.directory / f"driver-{self._drivers}"
        in_task = fault.point in STEPS
        Orders(f"{place}.orders").give((*fault.tasks, fault.point) if in_task else fault.tasks)
        return Driver(
            Setup(
                url=self.url,
                store=self.name,
                directory=str(self.directory),
                partitions=fault.partitions,
                events=f"{place}.jsonl",
                go=f"{place}.go",
                lead=f"{place}.lead",
                orders=f"{place}.orders",
                java_options=self.java_options,
                spark=self.spark,
                pause="" if in_task else fault.point,
                pause_at=fault.passing,
                to_the_end=not fault.point,
                letters=letters,
                tree=self.tree,
                keep=self.keep,
                rocksdb=fault.rocksdb,
                reuse=fault.reuse,
            ),
            "tests.spark.stateful.program",
        )

    def play(self, planned: list[Fault]) -> Tally:
        """Let these faults come one after the other, then let the job end, and check what it left.

        While one driver works, the next one already starts.
        """
        planned = [*planned, Fault("", 1, False, 5)]
        letters = len(planned) // 2
        left: Left | None = None
        with ExitStack() as running:
            waiting = running.enter_context(self.start(planned[0], letters == 0))
            for number, fault in enumerate(planned):
                driver = waiting
                if not fault.point:
                    self.feed(self._fed + 1)  # the last one ends with what it finds when it begins
                beside(driver, "lead").touch()
                if number + 1 < len(planned):
                    waiting = running.enter_context(self.start(planned[number + 1], number + 1 >= letters))
                driver.wait_for("leading", deadline=_SECONDS)
                self._strike_tasks(driver, fault)
                left = self._strike(driver, fault, left, running)
        self.check()
        return self.tally

    def _strike_tasks(self, driver: Driver, fault: Fault) -> None:
        orders = Orders(str(beside(driver, "orders")))
        for number, step in enumerate(fault.tasks):
            if step == FAILS:
                self.tally.counts["tasks failed"] += 1  # it does so of itself, and the driver's fault waits for it
            else:
                os.kill(self.standing(driver, orders, number).pid, signal.SIGKILL)
                self.tally.counts["tasks killed"] += 1

    def _strike(self, driver: Driver, fault: Fault, before: Left | None, running: ExitStack) -> Left | None:
        """Wake the driver ``before`` once this one has come to something, and let its own fault come."""
        orders, last = Orders(str(beside(driver, "orders"))), len(fault.tasks)

        def has_arrived() -> bool:
            return any(driver.event(name) for name in ("paused", "finished")) or orders.standing(last) is not None

        self._until(driver, lambda: driver.event("published") is not None or has_arrived(), "published nothing")
        if before is not None:
            self._wake(before)
        self._until(driver, has_arrived, f"did not come to {fault}")
        if driver.event("finished"):
            assert not fault.point, "its input had an end"
            driver.wait(_SECONDS)
            return None
        task = self.standing(driver, orders, last) if fault.point in STEPS else None
        if task is not None:
            assert is_worker(task.pid), "who stands still is no worker"
            running.callback(_kill_worker, task.pid)
            daemon = os.getpgid(task.pid)
            if fault.frozen:
                os.killpg(daemon, signal.SIGSTOP)
            else:  # or it would end its workers once its driver is dead; and the kernel, those that are stopped
                os.kill(daemon, signal.SIGKILL)
        if fault.frozen:
            driver.freeze()
        else:
            driver.kill()
        self.tally.counts[f"drivers {'frozen' if fault.frozen else 'killed'}{' in a task' if task else ''}"] += 1
        return Left(driver, orders, fault.frozen, task)

    def _wake(self, left: Left) -> None:
        """Let what was frozen go on, to its end."""
        task = left.task
        if task is not None:
            task.let_go()
            with suppress(ProcessLookupError):  # a task that was not stopped may have ended by now
                os.killpg(os.getpgid(task.pid), signal.SIGCONT)
        if left.frozen:
            left.driver.thaw()
            ended = left.driver.wait_for("ended", deadline=_SECONDS)
            assert ended["error"] in ("Fenced", "SessionExpired", "NoProgress"), ended
            self.tally.counts[f"refused: {ended['error']}"] += 1
        if task is not None:
            until = time.monotonic() + _SECONDS
            while is_worker(task.pid):
                if time.monotonic() > until:
                    raise left.driver.failed("is over, and its task still runs")
                time.sleep(0.03)
            self.tally.counts["late commits of state"] += left.orders.late_commits

    def _until(self, driver: Driver, holds: Callable[[], bool], complaint: str) -> None:
        """Wait until something holds, while the driver has something to do, unless it is the last one."""

        def does_hold() -> bool:
            told = [event.get("batch", event.get("published")) for event in driver.events()]
            published = [number for number in told if number is not None]
            if published and not _is_last(driver):
                self.feed(max(published) + 2)
            return holds()

        driver.until(does_hold, complaint, _SECONDS)

    def standing(self, driver: Driver, orders: Orders, number: int) -> Standing:
        """Wait until a task stands still by an order."""
        self._until(driver, lambda: orders.standing(number) is not None, f"no task met the order {number}")
        found = orders.standing(number)
        assert found is not None
        return found

    def check(self) -> None:
        """Check that each batch was published once, with what a count without faults gives; and so the state."""
        with milepost.Client(self.url) as client:
            record = client.store(self.name).read(JOB)
        batches = independent.published_rows(record, self.directory / "out")
        assert sorted(batches) == list(range(self._fed))
        counts, letters = Counter[str](), Counter[str]()
        history: list[dict[str, tuple[int, int | None]]] = [{}]
        changed = min(batch for batch, rows in batches.items() if len(rows[0]) > len(("word", "count")))
        for batch, words in enumerate(self._texts[: self._fed]):
            counts.update(words)
            expected: list[tuple[object, ...]] = [(word, counts[word]) for word in words]
            if batch >= changed:
                letters.update({word: len(word) * times for word, times in words.items()})
                expected = [(word, counts[word], letters[word]) for word in words]
            assert sorted(batches[batch]) == sorted(expected), f"batch {batch}"
            history.append({word: (count, letters.get(word)) for word, count in counts.items()})
        self._check_state(record, history)

    def _check_state(self, record: bytes, history: list[dict[str, tuple[int, int | None]]]) -> None:
        place = TreeFiles(self.url, self.name, None) if self.tree else LocalFiles(self.directory / STATE)
        with closing(place) if isinstance(place, TreeFiles) else nullcontext():
            files: StateFiles = FilesWithin(place, decode(record).job)
            reader = StateReader(files, snapshots_of(record)["state"])
            assert reader.version == self._fed
            for version in range(max(1, self._fed - self.keep + 1), self._fed + 1):
                found = [(one.key[0], one.value) for one in reader.entries("count", version=version)]
                assert sorted(found) == sorted(history[version].items()), f"snapshot {version}"

            def names(directory: str) -> list[str]:
                return [one.name.rpartition("/")[2] for one in files.list(directory)]

            for version, commits in independent.layouts(record):
                read = independent.state(commits, lambda name: files.read(name, 0, 1 << 30), names)
                raw = {word: (*value, None)[:2] for word, value in read.items()}
                assert raw == history[version], f"the files of snapshot {version}"


def beside(driver: Driver, suffix: str) -> Path:
    """The file of a driver that ends with ``suffix``."""
    return Path(driver.setup.events).with_suffix(f".{suffix}")


def _is_last(driver: Driver) -> bool:
    return isinstance(driver.setup, Setup) and driver.setup.to_the_end


def _kill_worker(pid: int) -> None:
    if is_worker(pid):
        os.kill(pid, signal.SIGKILL)
