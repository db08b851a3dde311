"""The job record: one small JSON state, under the handle ``job``, that says how far a job has come.

It is changed only by compare-and-set, twice for each batch: when the batch is entered (its checkpoint is registered),
and when it is published. Everything that the record names was stored before it.
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
    """A handle whose state is a tar archive of checkpoint files.

    ``size`` is the size of all files together, in bytes.
    """

    name: str
    version: str
    size: int
    files: int


@dataclass(frozen=True)
class JobCheckpoint:
    """The data that a driver needs to continue a query from one point.

    There are two kinds. One is taken when ``batch`` is entered (``committed`` is false): the restart runs ``batch``
    again, with the offsets that were logged for it. The other is taken at the end of a run, after Spark committed
    ``batch`` (``committed`` is true): the restart begins with the next batch. ``inline`` holds small files by their
    path, ``layers`` (oldest first) the others; if two layers hold the same path, the later one counts.
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
    """The progress of a job.

    ``job`` is the job's own identity, made once. ``published`` is the batch published last, -1 before the first, and
    ``manifest`` (JSON) is what its publishing function returned. ``checkpoints`` are newest first. ``entered`` and
    ``entries`` count how often the newest batch was entered without being published; more than once means that drivers
    ended inside it.
    """

    job: str
    epoch: int
    published: int = -1
    manifest: Any = None
    checkpoints: tuple[JobCheckpoint, ...] = field(default=())
    entered: int = -1
    entries: int = 0

    def entering(self, checkpoint: JobCheckpoint, retain: int) -> JobRecord:
        """Return the record with ``checkpoint`` registered at the entry to its batch."""
        again = self.entries + 1 if checkpoint.batch == self.entered else 1
        kept = self._with(checkpoint, retain)
        return replace(self, epoch=checkpoint.epoch, checkpoints=kept, entered=checkpoint.batch, entries=again)

    def publishing(self, batch: int, manifest: Any, epoch: int) -> JobRecord:
        """Return the record with ``batch`` published."""
        return replace(self, epoch=epoch, published=batch, manifest=manifest, entries=0)

    def replayed(self, epoch: int) -> JobRecord:
        """Return the record after the published batch was evaluated once more, so that no driver counts as ended inside
        it.
        """
        return replace(self, epoch=epoch, entries=0)

    def ending(self, checkpoint: JobCheckpoint, retain: int) -> JobRecord:
        """Return the record with the final checkpoint of a run registered."""
        return replace(self, epoch=checkpoint.epoch, checkpoints=self._with(checkpoint, retain))

    def _with(self, checkpoint: JobCheckpoint, retain: int) -> tuple[JobCheckpoint, ...]:
        older = [c for c in self.checkpoints if c.resumes_at < checkpoint.resumes_at]
        return (checkpoint, *older)[:retain]

    def layer_names(self) -> set[str]:
        """Return the names of the handles that the retained checkpoints consist of."""
        return {layer.name for checkpoint in self.checkpoints for layer in checkpoint.layers}

    def encode(self) -> bytes:
        """Return the state to store.

        Each call returns different bytes, so that the digest of a stored state shows whose write it was.
        """
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
    """Read the record in ``state``.

    Raises `RecordUnreadable` if it is not a job record, or has a schema that this version does not know.
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
        raise RecordUnreadable(f"the state of handle {JOB!r} is not a job record: {error!r}") from error


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
    """Turn a file's content into JSON. Spark's logs are text and stay readable; anything else becomes base64."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _content(raw: str | Mapping[str, str]) -> bytes:
    return raw.encode() if isinstance(raw, str) else base64.b64decode(raw["base64"], validate=True)
