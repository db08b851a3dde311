"""Managed state for ``foreachBatch``: a consistent snapshot of the state of all partitions is published together with
each batch.
"""
