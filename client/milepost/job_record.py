"""The job record: one small JSON state, under the handle ``job``, that says how far a job has come.

A driver changes it only by compare-and-set: when it enters its first batch, and when it publishes a batch.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, replace
from typing import Any, Final

from milepost import origin, timeline
from milepost.errors import NoSafeCheckpoint, RecordUnreadable
from milepost.job_types import JobAct
from milepost.origin import Origin
from milepost.timeline import UNRESTORED, Timeline, whole_number

SCHEMA = 2
_STATE_SCHEMA = 3
"""The schema of records with managed state; it differs from the usual one so that a release that does not know managed
state refuses the record instead of dropping the state.
"""
_EXPIRED_SCHEMA = 4
"""The schema of records with expired batches; it differs from the others so that a release that does not know expiry
refuses the record instead of dropping this entry.
"""
_RESTORED_SCHEMA = 5
"""The schema of records of a restored job; it differs from the others so that a release that does not know restores
refuses the record instead of reading batches that count no more.
"""
_CLONED_SCHEMA = 6
"""The schema of records of a clone, so that a release that does not know clones of jobs refuses the record."""
_RESCALED_SCHEMA = 8
"""The schema of records while a rescale goes on; it differs from the others so that a release that does not know
rescales refuses the record instead of continuing from a half rescaled state.
"""
_LAYERED_SCHEMA = 1
"""The schema of older releases, which stored checkpoints as archives and named them in the record."""
_KNOWN: Final = frozenset({*range(_LAYERED_SCHEMA, _CLONED_SCHEMA + 1), _RESCALED_SCHEMA})
KIND = "files"
"""The value of ``kind`` in the manifest of a record that `Job.files` wrote.

The manifest is the return value of the publishing function of the last batch, which may also be a user's own function.
"""
JOB = "job"
"""The name of the handle that holds the record."""
RECORD_FILE = "_milepost/record.json"
"""The path of the record's copy among the files of a job. A driver writes it after each publication, before Spark
commits the batch, so each snapshot of the files has the record that belongs to it.
"""
MOST_ABANDONED: Final = 16
"""The most histories that a job record keeps of what restores have abandoned."""
_PAGE_EPOCH = re.compile(r"/batch-\d+-e(\d+)-")


@dataclass(frozen=True)
class Abandoned:
    """What `Job.files` had published when a restore took a job back: the ``manifest``, the last ``published`` batch,
    and the ``timeline`` of the job then.

    Batches that the job's own timeline lacks count no more. Their files stay until they expire, and a snapshot of that
    time can still be restored.
    """

    manifest: Any
    published: int
    timeline: Timeline


@dataclass(frozen=True)
class JobRecord:
    """The progress of a job.

    ``job`` is the job's own identity, made once. ``published`` is the last published batch, -1 before the first, and
    ``manifest`` (JSON) is the return value of its publishing function. ``authority`` is the host part of the job's
    checkpoint location and never changes. ``entered`` is the newest batch that drivers began, and ``entries`` counts
    how often they began it without finishing it. ``layered`` says that an older release stored the job's checkpoint in
    its own format. ``state`` has the published snapshots of the job's managed states (JSON) by name; None if the job
    has none. Published batches below ``expired`` are expired: their files are deleted, or about to be.

    ``published_under`` is the epoch under which ``published`` was published; None if an older release published it.
    ``timeline`` says which publications count, and ``abandoned`` which of `Job.files` do not, the latest first.

    ``rescales_at`` is the batch, without input, as which a rescale that goes on divides the state anew; None if none
    does. Once Spark has committed that batch, the rescale counts, and before that it does not. ``origin`` says what the
    job is a clone of; None if it is none.
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
    published_under: int | None = None
    timeline: Timeline = UNRESTORED
    abandoned: tuple[Abandoned, ...] = ()
    rescales_at: int | None = None
    origin: Origin | None = None

    @property
    def states(self) -> str:
        """The name of the directory of the job's managed states: the identity of the job that began them."""
        return self.job if self.origin is None else self.origin.states

    @property
    def first_output(self) -> int:
        """The first batch whose output may be the job's own: 0, or in a clone the one after the cloned batches."""
        return 0 if self.origin is None else self.origin.batch + 1

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
        return replace(
            self, epoch=epoch, published=batch, manifest=manifest, entries=0, state=state, published_under=epoch
        )

    def replayed(self, epoch: int) -> JobRecord:
        """Return the record after a driver evaluated the last published batch once more: that batch then has no
        unfinished beginnings (``entries`` is 0).
        """
        return replace(self, epoch=epoch, entries=0)

    def rescaling(self, batch: int, epoch: int) -> JobRecord:
        """Return the record before Spark divides the state of its operators anew, as ``batch``."""
        return replace(self, epoch=epoch, rescales_at=batch)

    def rescaled(self, committed: int, epoch: int) -> JobRecord:
        """Return the record after a rescale has ended; Spark has committed batches up to ``committed``.

        The batch of a rescale that counts is published, with the output and the managed state of the batch before it,
        if the job has published anything through Milepost.
        """
        ended = replace(self, epoch=epoch, rescales_at=None)
        if self.rescales_at is None or committed < self.rescales_at or self.published < 0:
            return ended
        if self.origin is not None and self.published == self.origin.batch:  # a clone without output of its own yet
            ended = replace(ended, origin=replace(self.origin, batch=self.rescales_at))
        return replace(ended, published=self.rescales_at, entries=0, published_under=epoch)

    def cloned(self, name: str, snapshot: str, job: str, epoch: int) -> JobRecord:
        """Return the first record of a clone, with the identity ``job``, made under ``epoch`` of its store. This record
        is that of the snapshot ``snapshot`` of the job ``name``.

        The clone has published the same batches, with the same managed state, but its record lists no output.
        """
        before = self.origin
        manifests = (self.manifest, *(each.manifest for each in self.abandoned))
        outputs = [each["output"] for each in manifests if published_by_files(each)]
        return replace(
            self,
            job=job,
            epoch=epoch,
            manifest=None,
            entries=0,
            expired=0,
            published_under=epoch,
            timeline=UNRESTORED,
            abandoned=(),
            origin=Origin(
                lineage=((name, self.job), *(() if before is None else before.lineage)),
                snapshot=snapshot,
                batch=self.published,
                outputs=tuple(dict.fromkeys((*outputs, *(() if before is None else before.outputs)))),
                states=self.states,
            ),
        )

    def expiring(self, before: int, epoch: int) -> JobRecord:
        """Return the record after the published batches below ``before`` expired; batches that expired earlier stay
        expired.

        Raises ValueError for a batch that is not published; the last published batch with output never expires.
        """
        last = self.published
        if published_by_files(self.manifest):
            # The batch of a rescale has no output: the newest page ends before it, and the next driver needs that page.
            last = min(last, int(self.manifest["page"].get("last", last)))
        if before < 0 or before > last:
            raise ValueError(f"before must be from 0 to {last}, the batch that was published last")
        return replace(self, epoch=epoch, expired=max(before, self.expired))

    def expiry(self, before: JobRecord) -> JobAct:
        """Return what the change from ``before`` to this record, in which more batches are expired, does to the job."""
        known = before.expired - 1 if before.expired else None
        return JobAct("expired", batch=self.expired - 1, previous_batch=known)

    def restoring(self, then: JobRecord, epoch: int) -> JobRecord:
        """Return the record after a restore under ``epoch`` to the time when it was ``then``: the batches, the managed
        state and the published output are those of ``then``.

        Output of `Job.files` that counts no more is listed in ``abandoned``. The manifest is that of the history which
        ``then`` belongs to, since a page of it lists the batches of ``then`` as long as their files are kept; readers
        and the next driver read that page up to ``published``.

        Raises `NoSafeCheckpoint` if batches that ``then`` needs are expired, if its history is not known any more, or
        if the record would list too many histories; and `RecordUnreadable` if ``then`` is of another job.
        """
        if then.job != self.job:
            raise RecordUnreadable(f"the snapshot has the record of job {then.job}, and this job is {self.job}")
        if self.expired > max(then.published, 0):
            raise NoSafeCheckpoint(
                f"batch {then.published} was the last one then, and batches below {self.expired} are expired since"
            )
        here = Abandoned(self.manifest, self.published, timeline.ended(self.timeline, epoch))
        # What another function has published is in its own hands, so its history is the one of that time.
        source = Abandoned(then.manifest, then.published, timeline.ended(then.timeline, then.epoch + 1))
        manifest = then.manifest
        if published_by_files(then.manifest):
            found = next((each for each in (here, *self.abandoned) if _has(each, then)), None)
            if found is None:
                raise NoSafeCheckpoint(
                    f"no page that is kept lists what was published then, batch {then.published} under epoch "
                    f"{_under(then)}"
                )
            source, manifest = found, found.manifest
        left = tuple(
            each
            for each in (here, *self.abandoned)
            if published_by_files(each.manifest) and (each is not source or each.published > then.published)
        )
        if len(left) > MOST_ABANDONED:
            raise NoSafeCheckpoint(
                f"the job was restored {len(self.abandoned)} times and keeps the output of each: expire some of it"
            )
        return replace(
            then,
            epoch=epoch,
            manifest=manifest,
            entries=0,
            authority=self.authority,
            expired=self.expired,
            published_under=_under(then),
            timeline=timeline.restored(source.timeline, then.published, epoch),
            abandoned=left,
        )

    @property
    def abandoned_output(self) -> tuple[tuple[Any, int], ...]:
        """The manifests of `Job.files` that restores have abandoned, each with the last batch that it published."""
        return tuple((each.manifest, each.published) for each in self.abandoned)

    def forgetting(self) -> JobRecord:
        """Return the record without the abandoned histories whose batches are all expired."""
        left = tuple(each for each in self.abandoned if each.published >= self.expired)
        return self if left == self.abandoned else replace(self, abandoned=left)

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
        restored: dict[str, Any] = {}
        rescales: dict[str, int] = {}
        if self.timeline != UNRESTORED:
            schema = _RESTORED_SCHEMA
            restored = {
                "timeline": timeline.to_json(self.timeline),
                "abandoned": [
                    {
                        "manifest": each.manifest,
                        "published": each.published,
                        "timeline": timeline.to_json(each.timeline),
                    }
                    for each in self.abandoned
                ],
            }
        cloned: dict[str, Any] = {}
        if self.origin is not None:
            schema, cloned = _CLONED_SCHEMA, {"cloneOf": self.origin.to_json()}
        if self.rescales_at is not None:
            schema, rescales = _RESCALED_SCHEMA, {"rescalesAt": self.rescales_at}
        return json.dumps(
            {
                "schema": schema,
                "write": uuid.uuid4().hex,
                "job": self.job,
                "epoch": self.epoch,
                "published": self.published if self.published >= 0 else None,
                "publishedUnder": self.published_under,
                "manifest": self.manifest,
                "entered": {"batch": self.entered, "times": self.entries} if self.entries else None,
                "authority": self.authority,
                **state,
                **expired,
                **restored,
                **cloned,
                **rescales,
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
        schema = raw["schema"]
        if schema not in _KNOWN:
            raise RecordUnreadable(f"the job record has schema {schema!r}, this version knows up to {_RESCALED_SCHEMA}")
        restored = schema == _RESTORED_SCHEMA or "timeline" in raw
        under = raw.get("publishedUnder")
        entered = raw["entered"] or {"batch": -1, "times": 0}
        older = raw["schema"] == _LAYERED_SCHEMA
        return JobRecord(
            job=_text(raw["job"]),
            epoch=whole_number(raw["epoch"]),
            published=-1 if raw["published"] is None else whole_number(raw["published"]),
            manifest=raw["manifest"],
            entered=whole_number(entered["batch"]),
            entries=whole_number(entered["times"]),
            authority="" if older else _text(raw["authority"]),
            layered=older and bool(raw["checkpoints"]),
            state=_documents(raw["state"]) if schema == _STATE_SCHEMA or "state" in raw else None,
            expired=whole_number(raw["expired"]) if schema == _EXPIRED_SCHEMA or "expired" in raw else 0,
            published_under=None if under is None else whole_number(under),
            timeline=timeline.from_json(raw["timeline"]) if restored else UNRESTORED,
            abandoned=tuple(_abandoned(each) for each in raw["abandoned"]) if restored else (),
            rescales_at=whole_number(raw["rescalesAt"]) if schema == _RESCALED_SCHEMA else None,
            origin=origin.from_json(raw["cloneOf"]) if schema == _CLONED_SCHEMA or "cloneOf" in raw else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordUnreadable(f"the state of handle {JOB!r} is not a job record: {error!r}") from error


def _abandoned(raw: Any) -> Abandoned:
    return Abandoned(raw["manifest"], whole_number(raw["published"]), timeline.from_json(raw["timeline"]))


def _under(record: JobRecord) -> int | None:
    """Return the epoch under which the last batch of a record was published. An older release did not store it; the
    name of the page that it wrote has it. None if it is unknown.
    """
    if record.published_under is not None or not published_by_files(record.manifest):
        return record.published_under
    named = _PAGE_EPOCH.search(f"/{record.manifest['page'].get('file', '')}")
    return None if named is None else int(named[1])


def _has(history: Abandoned, then: JobRecord) -> bool:
    """Return whether a history of published output contains what was published when the record was ``then``."""
    under = _under(then)
    return (
        published_by_files(history.manifest)
        and history.manifest["output"] == then.manifest["output"]
        and history.published >= then.published
        and under is not None
        and timeline.contains(history.timeline, then.published, under)
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _documents(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        raise TypeError(f"{value!r} are no snapshots of states")
    return value
