"""Reads a job of a test by the data source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.spark.jobs import DEADLINE_SECONDS, Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def load(place: Place, **options: Any) -> DataFrame:
    """A batch query over the job; an option that is None is left out."""
    return place.spark.read.format("milepost").options(**_chosen(place, options)).load()


@dataclass
class Follower:
    """A stream over a job, which may be started again and again; it notes the rows of each of its batches."""

    place: Place
    name: str = "follower"
    seen: list[list[Any]] = field(default_factory=list)

    @contextmanager
    def following(self, *, available: bool = False, **options: Any) -> Iterator[StreamingQuery]:
        """Run the stream for as long as the block lasts; with ``available``, it ends by itself."""
        frame = self.place.spark.readStream.format("milepost").options(**_chosen(self.place, options)).load()
        writer = frame.writeStream.option("checkpointLocation", str(self.place.directory / self.name))
        writer = writer.trigger(availableNow=True) if available else writer
        query = writer.foreachBatch(lambda rows, _: self.seen.append(rows.collect())).start()
        try:
            yield query
        finally:
            query.stop()

    def follow(self, **options: Any) -> list[list[Any]]:
        """Read what is there, and return the rows of each new batch of the stream."""
        before = len(self.seen)
        with self.following(available=True, **options) as query:
            assert query.awaitTermination(DEADLINE_SECONDS), "the stream did not end in time"
        return self.seen[before:]


def _chosen(place: Place, options: dict[str, Any]) -> dict[str, str]:
    given = {"url": place.url, "store": place.name, **options}
    return {name: str(value) for name, value in given.items() if value is not None}
