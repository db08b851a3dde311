"""Positions of a stream of published batches, and which batches are between two of them.

A driver publishes a batch at most once under its epoch, so a batch and an epoch name one publication
(`milepost.timeline`), with all publications before it. A position names the last publication that a stream has read.
After a restore of the job it either counts still, and then so do all before it, or it does not.

Spark may plan the rows between two positions a second time, after the stream was started again, and they must be the
same rows then. So they follow from the positions alone: a restore since then changes nothing, unless it is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from milepost import timeline
from milepost.errors import BatchesGone, BatchesTakenBack, JobUnknown, NoSafeCheckpoint, RecordUnreadable
from milepost.job_record import Abandoned, JobRecord, published_by_files
from milepost.spark.output.listing import history_of, ranges
from milepost.spark.output.manifest import PublishedBatch

_NOTHING = -1


@dataclass(frozen=True)
class Position:
    """The place of a stream among the batches of the job whose identity is ``job``: behind ``batch``, which was
    published under ``epoch``.

    ``epoch`` is None for a place where a stream begins: it has read no batch.
    """

    job: str
    batch: int
    epoch: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert the position to an offset of Spark, which has neither null nor nested values."""
        return {"job": self.job, "batch": self.batch, "epoch": _NOTHING if self.epoch is None else self.epoch}


def from_json(raw: dict[str, Any]) -> Position:
    """Read a position from an offset of Spark. Raises `RecordUnreadable` if it is none."""
    try:
        epoch = timeline.whole_number(raw["epoch"])
        return Position(str(raw["job"]), timeline.whole_number(raw["batch"]), None if epoch == _NOTHING else epoch)
    except (KeyError, TypeError) as error:
        raise RecordUnreadable(
            f"the offset {raw!r} in the checkpoint of the query is none of published batches: another source wrote it, "
            "so begin a query with a checkpoint of its own"
        ) from error


def position_of(job: str, batch: PublishedBatch) -> Position:
    """Return the position behind a batch. The name of its directory has its epoch."""
    if batch.epoch is None:
        raise RecordUnreadable(f"the directory {batch.directory} of batch {batch.batch} does not name an epoch")
    return Position(job, batch.batch, batch.epoch)


List = Callable[[Abandoned, int], list[PublishedBatch]]
"""A function that lists the batches of a history as `milepost.spark.output.listing.listed_in` does."""


class Stream:
    """What a stream finds, as the job record describes it at one time.

    ``name`` is the job's. With ``accepted``, the epoch of a restore, the stream goes on behind what that restore or an
    earlier one left; batches that it has read and that count no more are followed by those that replace them. With
    ``may_lose``, it passes over batches that have expired before it read them.
    """

    def __init__(
        self, name: str, record: JobRecord, listed: List, *, accepted: int | None = None, may_lose: bool = False
    ) -> None:
        self._name = name
        self._record = record
        self._here = history_of(record)
        self._listed = listed
        self._accepted = accepted
        self._may_lose = may_lose

    def earliest(self) -> Position:
        """Return the position before the first batch that is kept."""
        return self.before(max(self._record.first_output, self._record.expired))

    def before(self, batch: int) -> Position:
        """Return the position before ``batch``."""
        return Position(self._record.job, batch - 1)

    def newest(self) -> Position:
        """Return the position behind the newest batch."""
        return self._behind(self._record.published) or self.earliest()

    def latest(self, start: Position, most: int | None = None, last: int | None = None) -> Position:
        """Return the position behind the newest batch; behind ``most`` batches after ``start``, and not behind the
        batch ``last``, if these are given.

        Return ``start`` if nothing was published since. Raises the errors of `between`.
        """
        after = self._after(start, self._here)
        until = self._record.published if last is None else min(last, self._record.published)
        found = self._batches(after, until) if after < until else []
        if found:
            return position_of(self._record.job, found[len(found) - 1 if most is None else min(most, len(found)) - 1])
        return start if after == start.batch else self._behind(after) or self.before(after + 1)

    def between(self, start: Position, end: Position) -> list[PublishedBatch]:
        """Return the batches behind ``start``, up to that of ``end``.

        Raises `BatchesTakenBack` if one of the two counts no more after a restore that is not accepted, `BatchesGone`
        if batches after ``start`` have expired, `JobUnknown` if another job has the name now, and `NoSafeCheckpoint` if
        the job has gone back without a restore.
        """
        self._check(start)
        self._check(end)
        if end.epoch is None:
            return []
        history = self._history_with(end)
        if history is None:
            raise BatchesGone(
                f"batch {end.batch} as it was published under epoch {end.epoch} is not listed any more: it has expired "
                f"since a restore of the job {self._name}. Begin a query with a checkpoint of its own",
                [end.batch],
            )
        return self._batches(self._after(start, history), end.batch, history)

    def _behind(self, batch: int) -> Position | None:
        """Return the position behind the newest batch up to ``batch``; None if none is kept."""
        kept = [each for each in self._listed(self._here, batch) if each.batch <= batch]
        return position_of(self._record.job, kept[-1]) if kept else None

    def _batches(self, after: int, last: int, history: Abandoned | None = None) -> list[PublishedBatch]:
        """Return the batches of a history, by default the one that counts, above ``after`` and up to ``last``."""
        expired = self._record.expired
        if after + 1 < expired and after < last and not self._may_lose:
            gone = range(after + 1, min(expired, last + 1))
            raise BatchesGone(
                f"batches {ranges(gone)} of the job {self._name} have expired before this stream read them; batches "
                f"from {expired} on are kept. To go on with these, set the option failOnDataLoss to false",
                gone,
            )
        first = max(after + 1, expired)
        return [each for each in self._listed(history or self._here, first) if first <= each.batch <= last]

    def _after(self, start: Position, history: Abandoned) -> int:
        """Return the last batch that a stream at ``start`` has read of ``history``."""
        self._check(start)
        if start.epoch is None or _has(history, start):
            return start.batch
        return self._in_common(start, history)

    def _check(self, position: Position) -> None:
        """Raise an error if the position does not count and the stream must not go on from it."""
        record = self._record
        if position.job != record.job:
            raise JobUnknown(
                f"this stream has read a job {self._name!r} that is not there any more, and another job has the name: "
                "begin a query with a checkpoint of its own"
            )
        if position.epoch is None or _has(self._here, position):
            return
        epoch = timeline.restored_under(record.timeline)
        if timeline.contains(record.timeline, position.batch, position.epoch) or not epoch:
            raise NoSafeCheckpoint(
                f"this stream has read batch {position.batch} of the job {self._name}, and its record names batch "
                f"{record.published} as the last one, without a restore: the service was set up from an older copy. "
                "Begin a query with a checkpoint of its own"
            )
        if self._accepted is not None and self._accepted >= epoch:
            return
        back = self._in_common(position, self._here)
        raise BatchesTakenBack(
            f"a restore of the job {self._name} has taken back batches that this stream has read, "
            f"{ranges(range(back + 1, position.batch + 1))}: their rows count no more. Take them back where it "
            f"writes, and start it with the option acceptRestore set to {epoch}: it then goes on with batch {back + 1}",
            epoch,
        )

    def _in_common(self, start: Position, history: Abandoned) -> int:
        """Return the last batch up to which ``history`` is the same as the one of ``start``, as far as both are kept.

        If that is not known, return the number before the first batch, so that expired ones in between are an error.
        """
        first = self._record.first_output
        origin = self._history_with(start)
        if origin is None:
            return first - 1
        since = max(first, self._record.expired)
        read = {each.batch: each.directory for each in self._listed(origin, since) if each.batch <= start.batch}
        same = [each.batch for each in self._listed(history, since) if read.get(each.batch) == each.directory]
        return max(same, default=first - 1)

    def _history_with(self, position: Position) -> Abandoned | None:
        """Return a history that has the publication at ``position``; None if none is known any more."""
        return next((each for each in (self._here, *self._record.abandoned) if _has(each, position)), None)


def _has(history: Abandoned, position: Position) -> bool:
    """Return whether a history has the publication at a position."""
    return (
        position.epoch is not None
        and published_by_files(history.manifest)
        and position.batch <= history.published
        and timeline.contains(history.timeline, position.batch, position.epoch)
    )
