"""The job record: one small JSON state, under the handle ``job``, that says how far a job has come.

A driver changes it only by compare-and-set: when it enters its first batch, and when it publishes a batch.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import Any

from milepost.errors import RecordUnreadable

SCHEMA = 2
_STATE_SCHEMA = 3
"""The schema of records with managed state; it differs from the usual one so that a release that does not know managed
state refuses the record instead of dropping the state.
"""
_EXPIRED_SCHEMA = 4
"""The schema of records with expired batches; it differs from the others so that a release that does not know expiry
refuses the record instead of dropping this entry.
"""
_LAYERED_SCHEMA = 1
"""The schema of older releases, which stored checkpoints as archives and named them in the record."""
KIND = "files"
"""The value of ``kind`` in the manifest of a record that `Job.files` wrote.

The manifest is the return value of the publishing function of the last batch, which may also be a user's own function.
"""
JOB = "job"
"""The name of the handle that holds the record."""


@dataclass(frozen=True)
class JobRecord:
    """The progress of a job.

    ``job`` is the job's own identity, made once. ``published`` is the last published batch, -1 before the first, and
    ``manifest`` (JSON) is the return value of its publishing function. ``authority`` is the host part of the job's
    checkpoint location and never changes. ``entered`` is the newest batch that drivers began, and ``entries`` counts
    how often they began it without finishing it. ``layered`` says that an older release stored the job's checkpoint in
    its own format. ``state`` has the published snapshots of the job's managed states (JSON) by name; None if the job
    has none. Published batches below ``expired`` are expired: their files are deleted, or about to be.
    """

    job: str
    epoch: int
    published: int = -1
    manifest: Any = None
    entered: int = -1
    entries: int = 0
    authority: str = ""
    layered: bool = False
    state: Any = None
    expired: int = 0

    @property
    def begun(self) -> int:
        """The newest batch that was published or that a driver began. A snapshot without the offsets of this batch is
        too old to continue from.
        """
        return max(self.published, self.entered)

    def entering(self, batch: int, entries: int, epoch: int) -> JobRecord:
        """Return the record after a driver began ``batch``; drivers have begun it ``entries`` times so far."""
        return replace(self, epoch=epoch, entered=batch, entries=entries)

    def publishing(self, batch: int, manifest: Any, epoch: int, state: Any = None) -> JobRecord:
        """Return the record after ``batch`` and the job's managed ``state`` were published."""
        return replace(self, epoch=epoch, published=batch, manifest=manifest, entries=0, state=state)

    def replayed(self, epoch: int) -> JobRecord:
        """Return the record after a driver evaluated the last published batch once more: that batch then has no
        unfinished beginnings (``entries`` is 0).
        """
        return replace(self, epoch=epoch, entries=0)

    def expiring(self, before: int, epoch: int) -> JobRecord:
        """Return the record after the published batches below ``before`` expired; batches that expired earlier stay
        expired.

        Raises ValueError for a batch that is not published; the last published batch never expires.
        """
        if before < 0 or before > self.published:
            raise ValueError(f"before must be from 0 to {self.published}, the batch that was published last")
        return replace(self, epoch=epoch, expired=max(before, self.expired))

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the record's handle: the last published batch and the epoch, for people who list the
        handles.
        """
        return {"published": str(self.published), "epoch": str(self.epoch)}

    def encode(self) -> bytes:
        """Return the record as the state to store.

        Each call returns different bytes, so that the digest of a stored state shows which write it came from.
        """
        state = {} if self.state is None else {"state": self.state}
        schema = SCHEMA if self.state is None else _STATE_SCHEMA
        expired: dict[str, int] = {}
        if self.expired:
            schema, expired = _EXPIRED_SCHEMA, {"expired": self.expired}
        return json.dumps(
            {
                "schema": schema,
                "write": uuid.uuid4().hex,
                "job": self.job,
                "epoch": self.epoch,
                "published": self.published if self.published >= 0 else None,
                "manifest": self.manifest,
                "entered": {"batch": self.entered, "times": self.entries} if self.entries else None,
                "authority": self.authority,
                **state,
                **expired,
            },
            separators=(",", ":"),
        ).encode()


def published_by_files(manifest: Any) -> bool:
    """Return whether `Job.files` wrote the ``manifest`` of a job record. Otherwise a user's own publishing function
    returned it; such a manifest may have a ``kind``, too, so other members are checked as well.
    """
    return (
        isinstance(manifest, dict)
        and manifest.get("kind") == KIND
        and isinstance(manifest.get("output"), str)
        and isinstance(manifest.get("page"), dict)
    )


def decode(state: bytes) -> JobRecord:
    """Read the record in ``state``.

    Raises `RecordUnreadable` if it is not a job record, or has a schema that this version does not know.
    """
    try:
        raw = json.loads(state)
        if raw["schema"] not in (SCHEMA, _LAYERED_SCHEMA, _STATE_SCHEMA, _EXPIRED_SCHEMA):
            raise RecordUnreadable(
                f"the job record has schema {raw['schema']!r}, this version knows up to {_EXPIRED_SCHEMA}"
            )
        entered = raw["entered"] or {"batch": -1, "times": 0}
        older = raw["schema"] == _LAYERED_SCHEMA
        return JobRecord(
            job=_text(raw["job"]),
            epoch=_number(raw["epoch"]),
            published=-1 if raw["published"] is None else _number(raw["published"]),
            manifest=raw["manifest"],
            entered=_number(entered["batch"]),
            entries=_number(entered["times"]),
            authority="" if older else _text(raw["authority"]),
            layered=older and bool(raw["checkpoints"]),
            state=_documents(raw["state"]) if raw["schema"] == _STATE_SCHEMA or "state" in raw else None,
            expired=_number(raw["expired"]) if raw["schema"] == _EXPIRED_SCHEMA else 0,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordUnreadable(f"the state of handle {JOB!r} is not a job record: {error!r}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _documents(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        raise TypeError(f"{value!r} are no snapshots of states")
    return value


def _number(value: Any) -> int:
    """Return ``value`` if it is an int. Raises TypeError otherwise, also for a bool."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value
