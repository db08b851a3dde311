"""The stream of the history of a job. Its offsets are ids of entries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from milepost.core.job_watch import order_of
from milepost.errors import Compacted, DeadlineExceeded, NoSafeCheckpoint, RecordUnreadable
from milepost.job_types import HistoryEntry
from milepost.spark.datasource.options import Options
from milepost.spark.datasource.planning import PAUSE_SECONDS, PlannedStream
from milepost.spark.datasource.tables import RowsPartition, history_row, partitions_with

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PAGE = 8
"""The entries that are fetched to find the newest one."""
_BEGINNING = ""
"""The id before all entries that are kept."""


class HistoryStream(PlannedStream):
    """Reads the entries of a job's history in the order of their ids.

    The planning process beside the driver reads the entries; an executor gets rows, and neither options nor a client.
    """

    def __init__(self, options: Options, schema: StructType, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(options, schema, clock)
        self._newest: tuple[float, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_schema": None, "_newest": None}

    def initialOffset(self) -> dict[str, Any]:
        """Return the id after which a new query begins: that of the option ``after``, else the beginning."""
        return {"id": self._planning.after or _BEGINNING}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Return the id of the newest entry. Spark passes ``start`` from release 4.2 on."""
        del limit
        now = self._now()
        if self._newest is None or now >= self._newest[0] + PAUSE_SECONDS:
            self._newest = now, self._newest_id() or _BEGINNING
        if start is not None and not self._newest[1]:
            return start
        return {"id": self._newest[1]}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Read the entries between two ids."""
        begin, until = _id_of(start), _id_of(end)
        if begin == until:
            return []
        # The rows of a batch are told after its commit, so only some readings of an entry have them. Spark may plan the
        # same entries again, and they must be the same then.
        found = [{**history_row(entry), "input_rows": None} for entry in self._between(begin, until)]
        return partitions_with(found, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition, on an executor."""
        return iter(partition.batches if isinstance(partition, RowsPartition) else ())

    def _newest_id(self) -> str | None:
        entries = self._service().job_history(self._planning.store, _PAGE)
        return next((entry.id for entry in entries if entry.id is not None), None)

    def _between(self, begin: str, until: str) -> list[HistoryEntry]:
        """Return the entries after the id ``begin``, up to ``until``.

        Raises `Compacted` if entries in between are not kept any more, unless ``failOnDataLoss`` is false.
        """
        options = self._planning
        if begin == _BEGINNING:
            return self._kept(begin, until)
        if order_of(begin) > order_of(until):
            raise NoSafeCheckpoint(
                f"this stream has read the history of {options.store} up to entry {begin}, and it ends with {until}: "
                "the service was set up from an older copy. Begin a query with a checkpoint of its own"
            )
        found = []
        try:
            for entry in self._service().job_events(options.store, after=begin, timeout=options.timeout):
                if order_of(entry.id) <= order_of(until):
                    found.append(entry)
                if order_of(entry.id) >= order_of(until):
                    return found
        except Compacted as error:
            if not options.fail_on_data_loss:
                return self._kept(begin, until)
            raise Compacted(
                error.code,
                f"entries of the history of {options.store} after {begin} are not kept any more, and this stream has "
                "not read them. To go on with those that are kept, set the option failOnDataLoss to false",
            ) from error
        raise DeadlineExceeded(
            f"the entries of the history of {options.store} up to {until} did not come within {options.timeout:g} s"
        )

    def _kept(self, begin: str, until: str) -> list[HistoryEntry]:
        """Return the entries in between that are kept, the oldest first."""
        entries = list(self._service().job_history(self._planning.store))
        first, last = order_of(begin) if begin else (-1, -1), order_of(until)
        return [entry for entry in reversed(entries) if entry.id is not None and first < order_of(entry.id) <= last]


def _id_of(offset: dict[str, Any]) -> str:
    try:
        found = offset["id"]
        if found:
            order_of(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordUnreadable(
            f"the offset {offset!r} is no id of an entry of a history: the checkpoint of the query is of another source"
            ", or the option after has no id"
        ) from error
    return str(found)
