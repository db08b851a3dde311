"""Points at which a driver under test can stand still: between any two steps that leave a trace outside.

They wrap the SDK's own functions, in the driver's process only; the SDK knows nothing of them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import milepost.core.lease
import milepost.spark.driver.watch
import milepost.spark.output.sink
import milepost.spark.takeover
from milepost.job_record import JobRecord, decode
from milepost.spark.batch import ExactlyOnce
from milepost.spark.output.sink import FilesSink
from milepost.spark.pointer import JobPointer
from milepost.store import StateHandleStore

TAKING_OVER = ("before record", "after recovery")
"""On the way in: with the epoch, before the record is read; with the checkpoint read, before the query starts."""

BATCH = (
    "before batch",
    "after entry",
    "before writing",
    "after evaluation",
    "after writing",
    "before publication",
    "after publication",
)
"""In a batch: with its offsets logged, before anything else; with the driver's first batch noted in the record; around
the writing of the output and its evaluation; and around the compare-and-set that publishes it."""

POINTS = (*TAKING_OVER, *BATCH)
ONCE = (*TAKING_OVER, "after entry")
"""What a driver is sure to pass once, and not more."""

Passing = Callable[[str, int], None]


def install(passing: Passing) -> None:
    """Call ``passing(point, batch)`` whenever the driver passes one of `POINTS`."""
    batch = -1

    def around(owner: Any, name: str, step: Callable[..., str]) -> None:
        real = getattr(owner, name)

        @functools.wraps(real)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            label = step(*args, **kwargs)
            passing(f"before {label}", batch)
            result = real(*args, **kwargs)
            passing(f"after {label}", batch)
            return result

        setattr(owner, name, wrapper)

    last: JobRecord | None = None

    def replacing(_store: Any, _name: str, _version: str, state: bytes, *_: Any, **__: Any) -> str:
        nonlocal last
        record, before = decode(state), last
        last = record
        if before is not None and record.published > before.published:
            return "publication"
        return "entry" if record.entries else "another"

    def taking(*_: Any, **__: Any) -> str:
        return "record"

    def running(_function: Any, _frame: Any, number: int, _query: Any) -> str:
        nonlocal batch
        batch = number
        return "batch"

    around(JobPointer, "take", taking)
    around(milepost.spark.takeover, "recover", lambda *_, **__: "recovery")
    around(ExactlyOnce, "_run", running)
    around(StateHandleStore, "replace", replacing)
    around(FilesSink, "_write", lambda *_: "writing")
    around(milepost.spark.output.sink, "_stage", lambda *_: "evaluation")


def blind() -> None:
    """Let no lease of this process run out by the clock: a driver that does not know for how long it stood still."""
    setattr(milepost.core.lease.Lease, "lost", property(lambda lease: lease._reason is not None))  # noqa: B010


def stuck(seconds: float) -> None:
    """Set another limit for a batch that no stop ends."""
    milepost.spark.driver.watch.STUCK_SECONDS = seconds


def wait_for(path: str, seconds: float) -> None:
    """Stand still until ``path`` is there; TimeoutError after ``seconds``, so that no driver is left behind."""
    until = time.monotonic() + seconds
    while not Path(path).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"nobody made {path}")
        time.sleep(0.02)
