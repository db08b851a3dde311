"""Engines: each holds one version of a state store, in memory or in RocksDB, while the version is open."""
