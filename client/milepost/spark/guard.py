"""Checks the query that calls a batch's function: it must use the job's checkpoint and safe sources, and be started
only once.

`warn_of_strangers` warns of sources on other servers that would get the token for the job's files: Hadoop's client
takes the token and the header with the epoch from the settings of a session, and sends them with each WebHDFS request
of that session, to any server (docs/decisions/0081).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from milepost.core.checkpoint_location import CREDENTIAL, CheckpointLocation
from milepost.errors import UnsafeQuery
from milepost.spark.driver.running import check_root, running_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)
_SCHEMES = ("webhdfs", "swebhdfs")

RETAINED = "spark.sql.streaming.minBatchesToRetain"
LEAST_RETAINED = 2
REPLAYABLE = ("filesource", "kafka", "rate", "delta", "iceberg")
"""The prefixes of the names of sources whose input stays readable after Spark has told them that a batch is
committed.
"""


class QueryGuard:
    """Checks the query that calls a batch: completely on its first batch, and on each later batch only that the same
    run of the query calls.
    """

    def __init__(self, spark: SparkSession, location: CheckpointLocation) -> None:
        self._spark = spark
        self._location = location
        self._run: str | None = None
        self.query: StreamingQuery | None = None
        """The query that was checked; None before the first check."""

    def check(self, frame: DataFrame, query_id: str, run_id: str) -> StreamingQuery:
        """Check the query with these ids, which calls a batch, and return it. Raises `UnsafeQuery` or
        `WrongCheckpoint`; the batch must not be evaluated before.
        """
        if run_id == self._run and self.query is not None:
            return self.query
        if self._run is not None:
            raise UnsafeQuery(
                "another run of a query calls the same function: one lead() serves one start of one query, since each "
                "start needs an epoch of its own"
            )
        query, found = running_query(self._spark, query_id), self._spark.streams.get(query_id)
        if found is None:
            raise UnsafeQuery("the query has ended already")
        check_root(query.checkpoint_root, self._location.url)
        for key, value in self._location.fence.items():
            found_value = frame.sparkSession.conf.get(key, None)
            if found_value != value:
                raise UnsafeQuery(
                    f"the query was started with {key} set to {found_value!r}, but lead() had set it to {value!r}: "
                    "leave this setting alone, and read job.checkpointLocation where the query is started"
                )
        check_retained(frame.sparkSession.conf.get(RETAINED))
        for source in query.sources:
            check_clean_source(source.options, source.name)
            warn_of_strangers(self._location, source.options.get("path", ""), f"source {source.name}")
            if not source.name.lower().startswith(REPLAYABLE):
                _log.warning(
                    "source %s is not known to keep the input of finished batches, which the next driver may need",
                    source.name,
                )
        self._run, self.query = run_id, found
        return found


def check_retained(batches: str | None) -> None:
    """Raise `UnsafeQuery` if Spark retains the state of too few ``batches`` (None: Spark's default, which is enough):
    its maintenance could then delete state that the next driver needs.
    """
    if batches is not None and int(batches) < LEAST_RETAINED:
        raise UnsafeQuery(
            f"{RETAINED} is {batches}: a driver that dies before Spark has noted its batch as done leaves that batch "
            "to the next one, and Spark's maintenance could have deleted the state before it; set it to "
            f"{LEAST_RETAINED} or more"
        )


def check_clean_source(options: Mapping[str, str], source: str) -> None:
    """Raise `UnsafeQuery` if a file source deletes or archives input that a replay may still need."""
    for name, value in options.items():
        if name.lower() == "cleansource" and value.lower() != "off":
            raise UnsafeQuery(
                f"the source {source} has cleanSource={value}: Spark removes a batch's input before the next driver "
                "can know that it needs no replay; leave it off and remove old input yourself"
            )


def warn_of_strangers(location: CheckpointLocation, where: str, what: str) -> None:
    """Log a warning if requests to the URL ``where`` carry the job's token although ``where`` is not at the job's
    service. ``what`` names, for the message, the part of the query that uses the URL.
    """
    url = urlsplit(where)
    if CREDENTIAL not in location.settings or url.scheme not in _SCHEMES:
        return
    if url.netloc != urlsplit(location.url).netloc:
        _log.warning(
            "%s uses %s://%s under the settings of this session, so the token of the job's files goes there; with it, "
            "others can read and write these files until the next driver leads: take another scheme than WebHDFS",
            what,
            url.scheme,
            url.netloc.rpartition("@")[2],
        )
