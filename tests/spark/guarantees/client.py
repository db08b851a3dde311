"""A client of a Connect server, in Python: it starts a query there for each sink, and tells how they end.

It is started by ``python -m tests.spark.guarantees.client SETUP``, whose ``url`` is that of the server.
"""

from __future__ import annotations

import sys

from tests.spark.guarantees.program import Setup, into, rows
from tests.spark.under_test.program import Events


def main(setup: Setup) -> int:
    """Run all queries to their end."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    tell = Events(setup.events)
    spark = SparkSession.builder.remote(setup.url).getOrCreate()
    queries = {}
    for sink in setup.sinks:
        writer = into(rows(spark, setup, sink), sink, setup)
        # No checkpoint location is named: the server has one for each query by its name.
        queries[sink] = writer.queryName(sink).trigger(availableNow=True).start()
    tell("started")
    for sink, query in queries.items():
        try:
            query.awaitTermination()
        except PySparkException as error:
            tell("query ended", sink=sink, how=str(error))
        else:
            tell("query ended", sink=sink, how="well")
    tell("finished")
    return 0


if __name__ == "__main__":
    sys.exit(main(Setup.decode(sys.argv[1])))
