"""`milepost` as a data source of Spark, for batch queries and streams.

::

    from milepost.spark.datasource import MilepostDataSource

    spark.dataSource.register(MilepostDataSource)
    spark.read.format("milepost").option("url", "http://127.0.0.1:7070").option("store", "flights").load()

Spark asks a Python data source in processes of its own. One beside the driver plans: it alone talks to the service.
Those of the executors read the Parquet files that were planned; they get neither the address of the service nor a
token.

=================  =====================================================================================
module             what it does
=================  =====================================================================================
``source``         the class that Spark registers, and the reader of batch queries
``options``        the options, which have the names of `milepost.Client`'s arguments where these exist
``tables``         the tables about jobs: their schemas and their rows
``published``      the stream of published batches
``positions``      decides what a stream reads next, after restores and expiry too
``entries``        the stream of the history of a job
``planning``       what the two streams have in common
``parquet``        plans and reads the files of published batches
``conversion``     converts the columns of a file into those that Spark expects
``file_systems``   reads files without Spark's JVM
=================  =====================================================================================
"""

from milepost.spark.datasource.source import MilepostDataSource

__all__ = ["MilepostDataSource"]
