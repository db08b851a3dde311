"""The leader's background work on trees: load manifests, compact records, and drop deleted entries."""
