"""The job record: the one small JSON state, under the handle ``job``, that says how far a job has come.

It is moved by compare-and-set alone, twice a batch: once when a batch is entered (its checkpoint is registered), once
when the batch is published. Whatever it names was stored before it.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from milepost.errors import RecordUnreadable

SCHEMA = 1
JOB = "job"
"""Name of the handle that holds the record."""


@dataclass(frozen=True)
class Layer:
    """A handle whose state is a tar archive of checkpoint files. ``size`` is what they had together, in bytes."""

    name: str
    version: str
    size: int
    files: int


@dataclass(frozen=True)
class JobCheckpoint:
    """What a driver needs to go on from one point of a query.

    Two kinds: taken when ``batch`` was entered (``committed`` false; the restart runs ``batch`` again, with the
    offsets that were logged for it), or taken at the end of a run, after Spark committed ``batch`` (``committed``
    true; the restart begins with the next one). ``inline`` holds small files by their path, ``layers`` (oldest first)
    the rest; where two layers hold the same path the later one counts.
    """

    batch: int
    committed: bool
    epoch: int
    inline: Mapping[str, bytes]
    layers: tuple[Layer, ...] = ()

    @property
    def resumes_at(self) -> int:
        """The first batch that a query restored from this checkpoint runs."""
        return self.batch + 1 if self.committed else self.batch

    def __str__(self) -> str:
        point = "after batch" if self.committed else "at the entry to batch"
        return f"checkpoint {point} {self.batch} (epoch {self.epoch})"


@dataclass(frozen=True)
class JobRecord:
    """How far a job has come.

    ``job`` is the job's own identity, made once. ``published`` is the last published batch, -1 before the first, and
    ``manifest`` what its publication left to say (JSON). ``checkpoints`` are newest first. ``entered`` and ``entries``
    count how often the newest batch was entered without being published: more than once means that drivers ended inside
    it.
    """

    job: str
    epoch: int
    published: int = -1
    manifest: Any = None
    checkpoints: tuple[JobCheckpoint, ...] = field(default=())
    entered: int = -1
    entries: int = 0

    def entering(self, checkpoint: JobCheckpoint, retain: int) -> JobRecord:
        """The record after ``checkpoint`` was registered at the entry to its batch."""
        again = self.entries + 1 if checkpoint.batch == self.entered else 1
        kept = self._with(checkpoint, retain)
        return replace(self, epoch=checkpoint.epoch, checkpoints=kept, entered=checkpoint.batch, entries=again)

    def publishing(self, batch: int, manifest: Any, epoch: int) -> JobRecord:
        """The record after ``batch`` was published."""
        return replace(self, epoch=epoch, published=batch, manifest=manifest, entries=0)

    def replayed(self, epoch: int) -> JobRecord:
        """The record after the published batch was evaluated once more: none of its drivers ended inside it."""
        return replace(self, epoch=epoch, entries=0)

    def ending(self, checkpoint: JobCheckpoint, retain: int) -> JobRecord:
        """The record after the tail of a run was registered."""
        return replace(self, epoch=checkpoint.epoch, checkpoints=self._with(checkpoint, retain))

    def _with(self, checkpoint: JobCheckpoint, retain: int) -> tuple[JobCheckpoint, ...]:
        older = [c for c in self.checkpoints if c.resumes_at < checkpoint.resumes_at]
        return (checkpoint, *older)[:retain]

    def layer_names(self) -> set[str]:
        """Names of the handles that the retained checkpoints are made of."""
        return {layer.name for checkpoint in self.checkpoints for layer in checkpoint.layers}

    def encode(self) -> bytes:
        """The state to store. Each call gives other bytes, so that a stored state's digest tells whose write it was."""
        return json.dumps(
            {
                "schema": SCHEMA,
                "write": uuid.uuid4().hex,
                "job": self.job,
                "epoch": self.epoch,
                "published": self.published if self.published >= 0 else None,
                "manifest": self.manifest,
                "entered": {"batch": self.entered, "times": self.entries} if self.entries else None,
                "checkpoints": [_checkpoint_json(c) for c in self.checkpoints],
            },
            separators=(",", ":"),
        ).encode()


def decode(state: bytes) -> JobRecord:
    """The record in ``state``.

    Raises `RecordUnreadable` when it is none, or of a schema that this version does not know.
    """
    try:
        raw = json.loads(state)
        if raw["schema"] != SCHEMA:
            raise RecordUnreadable(f"the job record has schema {raw['schema']!r}, this version knows {SCHEMA}")
        entered = raw["entered"] or {"batch": -1, "times": 0}
        return JobRecord(
            job=str(raw["job"]),
            epoch=int(raw["epoch"]),
            published=-1 if raw["published"] is None else int(raw["published"]),
            manifest=raw["manifest"],
            checkpoints=tuple(_checkpoint(c) for c in raw["checkpoints"]),
            entered=int(entered["batch"]),
            entries=int(entered["times"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordUnreadable(f"the state of handle {JOB!r} is no job record: {error!r}") from error


def _checkpoint_json(checkpoint: JobCheckpoint) -> dict[str, Any]:
    return {
        "batch": checkpoint.batch,
        "committed": checkpoint.committed,
        "epoch": checkpoint.epoch,
        "inline": {path: _content_json(content) for path, content in checkpoint.inline.items()},
        "layers": [[layer.name, layer.version, layer.size, layer.files] for layer in checkpoint.layers],
    }


def _checkpoint(raw: Mapping[str, Any]) -> JobCheckpoint:
    return JobCheckpoint(
        batch=int(raw["batch"]),
        committed=bool(raw["committed"]),
        epoch=int(raw["epoch"]),
        inline={str(path): _content(content) for path, content in raw["inline"].items()},
        layers=tuple(Layer(str(n), str(v), int(size), int(files)) for n, v, size, files in raw["layers"]),
    )


def _content_json(content: bytes) -> str | dict[str, str]:
    """Spark's logs are text and stay readable; anything else goes as base64."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _content(raw: str | Mapping[str, str]) -> bytes:
    return raw.encode() if isinstance(raw, str) else base64.b64decode(raw["base64"], validate=True)
