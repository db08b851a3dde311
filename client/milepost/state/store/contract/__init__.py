"""The contract of state stores: Spark's, with Python's names. Each docstring names the original.

The originals are in the package ``org.apache.spark.sql.execution.streaming.state`` of Spark 4.
"""
