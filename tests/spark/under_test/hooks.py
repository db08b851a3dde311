"""Points at which a driver under test can stand still: between any two steps that leave a trace outside.

They wrap the SDK's own functions, in the driver's process only; the SDK knows nothing of them.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import milepost.core.lease
import milepost.spark.checkpoints.layer_index
import milepost.spark.checkpoints.restore
import milepost.spark.driver.watch
import milepost.spark.output.sink
from milepost.spark.checkpoints.snapshotter import Snapshotter
from milepost.spark.output.sink import FilesSink
from milepost.spark.pointer import JobPointer
from milepost.spark.record import JOB, JobRecord, decode
from milepost.store import StateHandleStore

RESTORE = ("before record", "after unpacking", "after restoring", "after recovery")
"""On the way in: with the epoch, before the record is read; with one layer unpacked into the directory that is being
built; with all of it there, but not under its name; with the directory whole, before the query starts."""

BATCH = (
    "before snapshot",
    "before layer",
    "after layer",
    "before entry",
    "after entry",
    "before writing",
    "after evaluation",
    "after writing",
    "before publication",
    "after publication",
)
"""Entry and publication are the two compare-and-sets. From the layer to the entry, they are passed beside the writing
and its evaluation, otherwise in this order."""

FINAL = ("before final checkpoint", "after final checkpoint")
"""At the end of the input, around the compare-and-set that registers what Spark committed last."""

POINTS = (*RESTORE, *BATCH, *FINAL)
ENTERED = BATCH[BATCH.index("after entry") :]
"""Where a checkpoint is registered, so that the next driver has one to restore: who stands still at the writing is no
hindrance to the entry beside it."""
LAYERED = ("after unpacking", "before layer", "after layer")
"""What only a job passes whose state does not travel inside the record."""
ONCE = (*RESTORE, *FINAL)
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

    def replacing(_store: Any, name: str, _version: str, state: bytes, *_: Any) -> str:
        nonlocal last
        if name != JOB:
            return "another"
        record, before = decode(state), last
        last = record
        if record.checkpoints and record.checkpoints[0].committed:
            return "final checkpoint"
        if before is not None and record.published > before.published:
            return "publication"
        return "entry" if record.entries else "another"

    def snapshotting(_snapshotter: Any, number: int, **_: Any) -> str:
        nonlocal batch
        batch = number
        return "snapshot"

    around(JobPointer, "take", lambda *_, **__: "record")
    around(milepost.spark.checkpoints.restore, "_unpacked", lambda *_: "unpacking")
    around(milepost.spark.checkpoints.restore, "materialise", lambda *_: "restoring")
    around(importlib.import_module("milepost.spark.lead"), "recover", lambda *_, **__: "recovery")
    around(Snapshotter, "read", snapshotting)
    around(StateHandleStore, "add_and_lock", lambda _, name, *_rest, **_named: "layer" if name != JOB else "another")
    around(StateHandleStore, "replace", replacing)
    around(FilesSink, "__call__", lambda *_: "writing")
    around(milepost.spark.output.sink, "_stage", lambda *_: "evaluation")


def blind() -> None:
    """Let no lease of this process run out by the clock: a driver that does not know for how long it stood still."""
    setattr(milepost.core.lease.Lease, "lost", property(lambda lease: lease._reason is not None))  # noqa: B010


def limits(inline_bytes: int, max_layers: int, stuck: float) -> None:
    """Other limits for what travels inside the record, for the number of layers, and for a batch that no stop ends."""
    milepost.spark.checkpoints.layer_index.INLINE_BYTES = inline_bytes
    milepost.spark.checkpoints.layer_index.MAX_LAYERS = max_layers
    milepost.spark.driver.watch.STUCK_SECONDS = stuck


def wait_for(path: str, seconds: float) -> None:
    """Stand still until ``path`` is there; TimeoutError after ``seconds``, so that no driver is left behind."""
    until = time.monotonic() + seconds
    while not Path(path).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"nobody made {path}")
        time.sleep(0.02)
