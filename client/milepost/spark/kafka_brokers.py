"""Asks the brokers of Kafka which records they have, with Kafka's own client in Spark's JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError

from milepost.errors import SparkDriverError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_KAFKA: Final = "kafka."
_GONE: Final = "UnknownTopicOrPartitionException"
_CLOSE_SECONDS: Final = 1


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class Kept(NamedTuple):
    """A partition has records from offset ``first`` on, and none at ``end`` yet. One that is gone has 0 and 0."""

    first: int
    end: int


def kept_offsets(
    spark: SparkSession, options: Mapping[str, str], partitions: Iterable[Partition], timeout: float
) -> dict[Partition, Kept]:
    """Return what there is of each partition. ``options`` are those of a source of Spark's.

    Raises `SparkDriverError` if the brokers do not say it within ``timeout`` seconds, or if Spark has no client.
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
    """Open a client, and say of what Kafka raises that the brokers could not be asked."""
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
    milliseconds = round(2000 * timeout)  # the client gives up before that
    try:
        return int(answer.get(milliseconds, jvm.java.util.concurrent.TimeUnit.MILLISECONDS).offset())
    except Py4JJavaError as error:
        if _GONE in _causes(error):
            return 0
        raise


def _causes(error: Py4JJavaError) -> str:
    """Return what Java says of an exception and of those below it, without their traces."""
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
