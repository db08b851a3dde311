"""The parts of a Spark driver around its query: they watch Spark's JVM, handle SIGTERM, and stop the query between two
batches.
"""
