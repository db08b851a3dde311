"""The records in memory with their indexes: the committed state, and that state with the groups in flight on top."""
