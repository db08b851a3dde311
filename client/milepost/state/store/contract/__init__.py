"""The contract of state stores: that of Spark, with names in Python's style. Each docstring names the original in
Scala.

The originals are in the package ``org.apache.spark.sql.execution.streaming.state`` of Spark 4.
"""
