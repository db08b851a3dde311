"""The records in memory: committed state, and what will be there once the groups in flight have been committed."""
