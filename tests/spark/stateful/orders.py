"""Orders to the tasks of a job under test: stand still at a step, to be killed or frozen there, or fail.

They lie as files in a directory, numbered, and are met one after the other by whatever task comes to the step of the
next one. Driver, workers and test share nothing but that directory.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.spark.under_test.hooks import wait_for

IN_ROWS = "in-rows"
BEFORE_COMMIT = "before-commit"
BEFORE_LINK = "before-link"
AFTER_COMMIT = "after-commit"
FAILS = "fails"
STEPS = (IN_ROWS, BEFORE_COMMIT, AFTER_COMMIT, BEFORE_LINK)
"""Where a task can stand still: at its first key; around the commit of its store; and with the file of its commit
written, but not yet under its name. The last step is the only one that a tree has not."""

_STANDSTILL_SECONDS = 300.0


class OrderedToFail(RuntimeError):
    """A task fails as it was told, after it has committed."""


@dataclass(frozen=True)
class Standing:
    """A task that stands still, in the worker process ``pid``."""

    pid: int
    go: Path

    def let_go(self) -> None:
        """Let the task go on."""
        self.go.touch()


@dataclass(frozen=True)
class Orders:
    """The orders in a directory."""

    directory: str

    def give(self, steps: tuple[str, ...]) -> None:
        """Give orders, whose numbers follow those that were given before."""
        Path(self.directory).mkdir(exist_ok=True)
        first = len([name for name in os.listdir(self.directory) if name.endswith((".given", ".met"))])
        for number, step in enumerate(steps, first):
            (Path(self.directory) / f"{number:02}.{step}.given").touch()

    @property
    def all_met(self) -> bool:
        """Whether no order is left."""
        return not self._given()

    def standing(self, number: int) -> Standing | None:
        """The task that stands still by the order of this number, if one does."""
        for path in Path(self.directory).glob(f"{number:02}.*.met"):
            return Standing(int(path.name.split(".")[2]), self._go(number))
        return None

    @property
    def late_commits(self) -> int:
        """How many tasks committed after they had stood still."""
        return len(list(Path(self.directory).glob("*.committed")))

    def meet(self, step: str, partition: int, partitions: int) -> int | None:
        """Stand still if the next order is for this step, and for this partition, one for each order; return its number
        then. Raises `OrderedToFail`.
        """
        given = self._given()
        if not given:
            return None
        number, wanted, _ = given[0].split(".")
        place = Path(self.directory)
        for_this = zlib.crc32(f"{place.parent.name}{place.name}{number}".encode()) % partitions == partition
        if (AFTER_COMMIT if wanted == FAILS else wanted) != step or not for_this:
            return None
        try:
            (place / given[0]).rename(place / f"{number}.{wanted}.{os.getpid()}.met")
        except FileNotFoundError:
            return None  # another task met it
        if wanted == FAILS:
            raise OrderedToFail("after the commit")
        wait_for(str(self._go(int(number))), _STANDSTILL_SECONDS)
        return int(number)

    def note_commit(self, number: int) -> None:
        """Note that a task committed after it had stood still by this order."""
        (Path(self.directory) / f"{number:02}.committed").touch()

    def _go(self, number: int) -> Path:
        return Path(self.directory) / f"{number:02}.go"

    def _given(self) -> list[str]:
        return sorted(name for name in os.listdir(self.directory) if name.endswith(".given"))


class Obeying(StatefulProcessor):
    """Another processor, whose tasks meet orders."""

    def __init__(self, processor: StatefulProcessor, orders: Orders, partitions: int) -> None:
        self._processor = processor
        self._orders = orders
        self._partitions = partitions
        self._stood: int | None = None

    def init(self, handle: Any) -> None:
        if TaskContext.get() is not None:  # not the driver's copy, which is asked for its state variables
            _install(self)
        self._processor.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        self.meet(IN_ROWS)
        return self._processor.handleInputRows(key, rows, timerValues)

    def close(self) -> None:
        self._processor.close()

    def meet(self, step: str) -> None:
        """Meet an order, one for each attempt of a task."""
        context = TaskContext.get()
        assert context is not None
        if self._stood is None:
            self._stood = self._orders.meet(step, context.partitionId(), self._partitions)

    def committed(self) -> None:
        """Note a commit of a task that has stood still."""
        if self._stood is not None:
            self._orders.note_commit(self._stood)


_obeying: Obeying | None = None
_real: dict[str, Callable[..., Any]] = {}


def _install(processor: Obeying) -> None:
    """Let the task of this process meet its orders around its commit; the SDK knows nothing of it."""
    global _obeying
    _obeying = processor
    if _real:
        return
    from milepost.state.processors import task

    _real.update(commit=task.commit, link=os.link)

    def commit(store: Any) -> None:
        assert _obeying is not None
        _obeying.meet(BEFORE_COMMIT)
        _real["commit"](store)
        _obeying.committed()
        _obeying.meet(AFTER_COMMIT)

    def link(source: Any, target: Any, **options: Any) -> None:
        assert _obeying is not None
        if str(target).endswith(".delta"):
            _obeying.meet(BEFORE_LINK)
        _real["link"](source, target, **options)

    setattr(task, "commit", commit)  # noqa: B010
    setattr(os, "link", link)  # noqa: B010


def is_worker(pid: int) -> bool:
    """Whether a process is a worker of PySpark, or was a moment ago."""
    with suppress(OSError):
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
