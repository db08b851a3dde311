"""Managed state for ``foreachBatch``: one consistent snapshot of all partitions, published with the batch."""
