"""What a driver in the demo does beside its work: it notes what happens, and stands still where it shall be broken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.spark.settings import AFTER_PUBLISHING, BEFORE_PUBLISHING, DriverSettings, Halt
from demo.timeline import BEGAN, EVALUATED, FAILED, FENCED, FINISHED, HALTED, PUBLISHED, STANDBY, EventLog
from milepost.errors import Fenced, SessionLost
from milepost.spark.batch import ExactlyOnce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from milepost.job_record import JobRecord
    from milepost.spark import BatchContext
    from milepost.spark.publishing import Publisher

BatchFunction = Callable[["DataFrame", int], None]
_POLL_SECONDS = 0.05


class Probe:
    """Of one driver process. A halt is for the first driver that comes to it; those after it pass."""

    def __init__(self, settings: DriverSettings) -> None:
        self._name = settings.name
        self._log = EventLog(Path(settings.events))
        self._directory = Path(settings.events).parent
        self._begin = Path(settings.begin)
        self._halts = frozenset(settings.halts)

    def note(self, what: str, batch: int | None = None, epoch: int | None = None, detail: str = "") -> None:
        """Append an event of this driver to the log of the run."""
        self._log.note(self._name, what, batch, epoch, detail)

    def stand_by(self) -> None:
        """Wait until this driver is told to begin."""
        self.note(STANDBY)
        wait_for_file(self._begin)

    def around(self, function: BatchFunction) -> BatchFunction:
        """``function``, for ``foreachBatch``, with notes and halts around it.

        "Before publishing" lies for Milepost between the staged output and the compare-and-set that makes it count,
        which takes a hold inside of it. For plain Spark, whose append is both at once, it lies before that.
        """
        if isinstance(function, ExactlyOnce):
            return self._around_milepost(function)

        def watched(frame: DataFrame, batch: int) -> None:
            self.note(BEGAN, batch)
            self._halt(BEFORE_PUBLISHING, batch)
            function(frame, batch)
            self.note(PUBLISHED, batch)
            self._halt(AFTER_PUBLISHING, batch)

        return watched

    def _around_milepost(self, function: ExactlyOnce) -> BatchFunction:
        staged: list[int] = []

        def stage(batch: int) -> None:
            staged.append(batch)
            self._halt(BEFORE_PUBLISHING, batch)

        def watched(frame: DataFrame, batch: int) -> None:
            self.note(BEGAN, batch)
            function(frame, batch)
            self.note(PUBLISHED if batch in staged else EVALUATED, batch)
            self._halt(AFTER_PUBLISHING, batch)

        function.publisher = _Staging(function.publisher, stage)
        return watched

    @contextmanager
    def noting_the_end(self) -> Iterator[None]:
        """Note how the driver's work inside ended."""
        try:
            yield
        except (Fenced, SessionLost) as error:
            self.note(FENCED, detail=type(error).__name__)
            raise
        except Exception as error:
            text = str(error)
            self.note(FAILED, detail=text.partition("terminated with exception: ")[2] or text)
            raise
        self.note(FINISHED)

    def _halt(self, place: str, batch: int) -> None:
        halt = Halt(place, batch)
        if halt not in self._halts:
            return
        try:
            os.close(os.open(self._directory / halt.name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        self.note(HALTED, batch, detail=place)
        wait_for_file(self._directory / f"{halt.name}.over")


@dataclass(frozen=True)
class _Staging:
    """A publisher that calls ``staged`` with the batch when ``publisher`` has staged its output."""

    publisher: Publisher
    staged: Callable[[int], None]

    def check(self, record: JobRecord) -> None:
        self.publisher.check(record)

    def publish(self, frame: DataFrame, context: BatchContext) -> Any:
        manifest = self.publisher.publish(frame, context)
        self.staged(context.batchId)
        return manifest


def wait_for_file(path: Path) -> None:
    """Wait until ``path`` is there."""
    while not path.exists():
        time.sleep(_POLL_SECONDS)
