"""Compares the Kafka offsets that a query would read next with those that the brokers still have, before the query
starts.

Kafka deletes old records by age and by size, whether a query has read them or not. Spark notices that records are gone
only when its tasks request them, in the middle of a batch; with ``failOnDataLoss=false`` it only logs the loss, and
continues after it. This module asks the brokers with Kafka's own client in Spark's JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError

from milepost.errors import LostOffsets, OffsetsExpired, SparkDriverError
from milepost.spark.output.file_systems import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_KAFKA: Final = "kafka."
_GONE: Final = "UnknownTopicOrPartitionException"
_CLOSE_SECONDS: Final = 1
_NAMED: Final = 5


class Partition(NamedTuple):
    """A partition of a Kafka topic."""

    topic: str
    number: int


class Kept(NamedTuple):
    """The records that the brokers have of a partition: those from offset ``first`` up to, but not including, ``end``.
    Both are 0 for a partition that is gone.
    """

    first: int
    end: int


Offsets = dict[Partition, int]
"""One offset for each partition."""


def check_offsets(
    spark: SparkSession,
    checkpoint: str,
    options: Mapping[str, str],
    *,
    source: str | None = None,
    timeout: float = 60.0,
) -> None:
    """Raise `OffsetsExpired` if records are gone that the query with this ``checkpoint`` would read next.

    ``options`` are those of its Kafka source. If a query reads several Kafka clusters, call this once for each, with
    ``source``: the source's name in Spark's offset log, or its number if the log has no names. Call this under the
    epoch and with the settings of the checkpoint location in place, before the query starts. A query that has not begun
    needs no check. Raises `SparkDriverError` if the brokers do not answer within ``timeout`` seconds.
    """
    files = HadoopFiles(spark)
    wanted = wanted_offsets(files, checkpoint, source)
    if not wanted:
        return
    kept = _kept_offsets(spark, options, wanted, timeout)
    lost = [
        LostOffsets(*partition, wanted[partition], *kept[partition])
        for partition in sorted(wanted)
        if not kept[partition].first <= wanted[partition] <= kept[partition].end
    ]
    if lost:
        raise OffsetsExpired(_describe(lost), lost)


def wanted_offsets(files: HadoopFiles, checkpoint: str, source: str | None = None) -> Offsets:
    """Return the offset at which the query continues in each partition; empty if the query has not begun. ``source`` is
    as in `check_offsets`; None means all sources.

    If the last batch in the offset log is committed, the query continues at the end of that batch. If not, the batch
    runs again, from the end of the batch before it; the first batch of all runs from the offsets that the source stored
    at its start.
    """
    batch = max(_numbers(files.names(f"{checkpoint}/offsets")), default=None)
    if batch is None:
        return {}
    if batch not in _numbers(files.names(f"{checkpoint}/commits")):
        batch -= 1
    if batch >= 0:
        return _merged(parsed for name, parsed in _ends(files, checkpoint, batch) if source in (None, name))
    first = files.names(f"{checkpoint}/sources")
    notes = (files.read(f"{checkpoint}/sources/{name}/0") for name in first if source in (None, name))
    return _merged(_parsed(note.decode().rpartition("\n")[2]) for note in notes if note is not None)


def _numbers(names: list[str]) -> set[int]:
    return {int(name) for name in names if name.isascii() and name.isdigit()}


def _ends(files: HadoopFiles, checkpoint: str, batch: int) -> Iterator[tuple[str, Offsets]]:
    """Yield, for each source, its name and the offsets at which ``batch`` ended. Version 1 of Spark's offset log has no
    names; the name is then the number of the source.
    """
    lines = (files.read(f"{checkpoint}/offsets/{batch}") or b"").decode().splitlines()
    for index, line in enumerate(lines[2:]):
        name, offset = (str(index), line) if lines[0] == "v1" else line.split(":", 1)
        yield name, _parsed(offset)


def _parsed(offset: str) -> Offsets:
    """Return the offsets of a Kafka source; empty for any other kind of source."""
    try:
        found: Any = json.loads(offset)
    except ValueError:
        return {}
    if not isinstance(found, dict) or not all(isinstance(ends, dict) for ends in found.values()):
        return {}
    return {
        Partition(topic, int(partition)): end
        for topic, ends in found.items()
        for partition, end in ends.items()
        if partition.isdigit() and isinstance(end, int)
    }


def _merged(parts: Iterator[Offsets]) -> Offsets:
    """Return the offsets of all ``parts`` together; if a partition is in several parts, the lowest of its offsets."""
    merged: Offsets = {}
    for part in parts:
        for partition, offset in part.items():
            merged[partition] = min(offset, merged.get(partition, offset))
    return merged


def _describe(lost: Sequence[LostOffsets]) -> str:
    named = "; ".join(_what_is_lost(partition) for partition in lost[:_NAMED])
    more = f"; and {len(lost) - _NAMED} partitions more" if len(lost) > _NAMED else ""
    return (
        f"Kafka no longer has what this query would read next: {named}{more}. Keep records longer than a query may be"
        " away. If a topic was made anew, milepost jobs restore with --offsets keeps the state and reads the topic from"
        " the offsets that you give. Else, to go on without the records, start the query on a new checkpoint, or with"
        " failOnDataLoss=false"
    )


def _what_is_lost(of: LostOffsets) -> str:
    wanted = f"partition {of.partition} of topic {of.topic!r} is wanted from offset {of.wanted} on"
    if of.wanted < of.earliest:
        return f"{wanted}, and the earliest that there is is {of.earliest}"
    return f"{wanted}, and ends at {of.latest}: the topic was deleted or made anew"


def _kept_offsets(
    spark: SparkSession, options: Mapping[str, str], partitions: Iterable[Partition], timeout: float
) -> dict[Partition, Kept]:
    """Return the records that the brokers have of each partition. ``options`` are those of Spark's Kafka source.

    Raises `SparkDriverError` if the brokers do not answer within ``timeout`` seconds, or if Spark has no Kafka client.
    """
    jvm: Any = spark.sparkContext._jvm
    kafka = jvm.org.apache.kafka
    if isinstance(kafka.clients.admin.AdminClient, JavaPackage):
        raise SparkDriverError(
            "Spark cannot read Kafka, since its JVM has no client for that: start it with spark-sql-kafka-0-10 in"
            " spark.jars.packages"
        )
    named = {partition: kafka.common.TopicPartition(*partition) for partition in partitions}
    with _client(jvm, options, timeout) as client:
        specs = kafka.clients.admin.OffsetSpec.earliest(), kafka.clients.admin.OffsetSpec.latest()
        asked = [client.listOffsets(_map(jvm, dict.fromkeys(named.values(), spec))) for spec in specs]
        return {
            partition: Kept(*(_offset(jvm, answer.partitionResult(there), timeout) for answer in asked))
            for partition, there in named.items()
        }


@contextmanager
def _client(jvm: Any, options: Mapping[str, str], timeout: float) -> Iterator[Any]:
    """Open a Kafka admin client for the block. Raises `SparkDriverError` in place of the exceptions of Kafka's
    client.
    """
    own = {name[len(_OF_KAFKA) :]: value for name, value in options.items() if name.lower().startswith(_OF_KAFKA)}
    limits = {"default.api.timeout.ms": str(round(1000 * timeout)), "request.timeout.ms": str(round(1000 * timeout))}
    try:
        client = jvm.org.apache.kafka.clients.admin.AdminClient.create(_map(jvm, own | limits))
        try:
            yield client
        finally:
            client.close(jvm.java.time.Duration.ofSeconds(_CLOSE_SECONDS))
    except Py4JJavaError as error:
        servers = own.get("bootstrap.servers", "no address")
        raise SparkDriverError(
            f"Kafka at {servers} did not say which records it has: {_causes(error)}; the query was not started"
        ) from error


def _offset(jvm: Any, answer: Any, timeout: float) -> int:
    milliseconds = round(2000 * timeout)  # the client's own request timeout is shorter
    try:
        return int(answer.get(milliseconds, jvm.java.util.concurrent.TimeUnit.MILLISECONDS).offset())
    except Py4JJavaError as error:
        if _GONE in _causes(error):
            return 0
        raise


def _causes(error: Py4JJavaError) -> str:
    """Return the messages of a Java exception and of its causes, without their stack traces."""
    exception, said = error.java_exception, list[str]()
    while exception is not None and len(said) < 4:
        said.append(str(exception.toString()))
        exception = exception.getCause()
    return said[-1] if len(said) == 1 else "; ".join(said[1:])


def _map(jvm: Any, content: Mapping[Any, Any]) -> Any:
    made = jvm.java.util.HashMap()
    for key, value in content.items():
        made.put(key, value)
    return made
