"""Engines: each holds one version of a store, in memory or in RocksDB, while the version is open."""
