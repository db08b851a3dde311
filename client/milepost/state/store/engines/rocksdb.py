"""Engines that hold state in RocksDB, on a local disk. They use a limited amount of memory for a state of any size."""

from __future__ import annotations

import ctypes
import logging
import os
import secrets
import shutil
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import rocksdict

from milepost.portable import try_lock
from milepost.state.errors import EngineFailed, InvalidUse
from milepost.state.store.engines.engine import Engine

_log = logging.getLogger(__name__)
_BATCH_BYTES = 1024 * 1024
_LEAST_MEMORY = 8 * 1024 * 1024

_databases: weakref.WeakKeyDictionary[RocksDBEngine, Any] = weakref.WeakKeyDictionary()
_owner: int | None = None
"""The id of the process that first used RocksDB, in which the threads of RocksDB run; None before. A forked process has
no such threads.
"""

_PREFIX = "milepost-base-"
_LOCK = ".lock"


def _check_process() -> None:
    global _owner
    if _owner is None:
        _owner = os.getpid()
    elif _owner != os.getpid():
        raise EngineFailed(
            "RocksDB was used in the process that this one was forked from, and would wait here for ever for threads "
            "that are there: start processes by spawn, or keep their state in memory"
        )


def _keep_what_is_open() -> None:
    """Keep a reference to each open RocksDB database in a forked process, so that it is never closed there: the close
    would wait for ever for RocksDB's threads.
    """
    for database in _databases.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_what_is_open)


class RocksDBEngines:
    """Makes engines in RocksDB. All engines that one `RocksDBEngines` makes share one amount of memory."""

    def __init__(self, directory: str | os.PathLike[str], *, memory_bytes: int = 128 * 1024 * 1024) -> None:
        """``directory`` is on a local disk. Each engine has its own directory there, which is removed when the engine
        is closed. Directories that ended processes left are removed now. They cannot be used again: without RocksDB's
        write-ahead log, they may lack the data that was in memory.

        ``memory_bytes`` is the memory of all engines together, for blocks of files, their indexes and filters, and for
        data that is not in files yet.
        """
        if memory_bytes < _LEAST_MEMORY:
            raise InvalidUse(f"RocksDB needs {_LEAST_MEMORY} bytes of memory at least")
        self._directory = Path(directory)
        remove_leftovers(self._directory)
        self._cache = rocksdict.Cache(memory_bytes)
        self._buffers = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
            memory_bytes // 2, False, self._cache
        )
        self._buffer_bytes = max(memory_bytes // 8, 1024 * 1024)
        self._open = 0

    def __call__(self) -> Engine:
        """Make an empty engine. Raises `EngineFailed` if RocksDB fails, and in a fork of a process that has used
        RocksDB.
        """
        _check_process()
        with _translated():
            return RocksDBEngine(CacheDirectory(self._directory), self)

    def options(self) -> rocksdict.Options:
        """Return RocksDB's options for the database of one engine."""
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_block_size(16 * 1024)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        table.set_bloom_filter(10, False)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_error_if_exists(True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_manager(self._buffers)
        options.set_write_buffer_size(self._buffer_bytes)
        options.set_max_open_files(256)
        options.set_max_background_jobs(2)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_keep_log_file_num(1)
        options.set_max_log_file_size(1024 * 1024)
        options.set_stats_dump_period_sec(0)
        return options

    def opened(self, change: int) -> None:
        """Add ``change`` to the number of open engines, among which `share_of_cache` divides the memory."""
        self._open += change

    def share_of_cache(self) -> int:
        """Return the part of the used shared memory, in bytes, that counts for one open engine: an equal part for
        each.
        """
        return int(self._cache.get_usage()) // max(self._open, 1)


class RocksDBEngine(Engine):
    """An engine that keeps keys and values in a RocksDB database. It has no write-ahead log, because the files of the
    state store contain the same data.
    """

    def __init__(self, directory: CacheDirectory, engines: RocksDBEngines) -> None:
        self._directory = directory
        self._engines = engines
        try:
            self._database = rocksdict.Rdict(str(directory.path), engines.options())
        except BaseException:
            directory.remove()
            raise
        self._unlogged = rocksdict.WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # its stub calls it a method
        self._process = os.getpid()
        _databases[self] = self._database
        engines.opened(1)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with _translated():
            return list(self._database.get(list(keys)) or ())

    def scan(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        pairs = self._database.items(from_key=start)
        last: bytes | None = None
        while True:
            with _translated():
                pair = next(pairs, None)
                if pair is None:
                    self._check_end(start, last)
                    return
            if end is not None and pair[0] >= end:  # type: ignore[operator]  # raw: keys are bytes
                return
            last = pair[0]  # type: ignore[assignment]
            yield pair  # type: ignore[misc]

    def _check_end(self, start: bytes, last: bytes | None) -> None:
        """Raise `EngineFailed` if a scan from ``start`` ended after the key ``last`` (None for no key) because of a
        read error. This is necessary because RocksDB then ends the scan without raising.
        """
        behind = self._database.iter()
        behind.seek(start if last is None else last)
        if last is not None and behind.valid():
            behind.next()
        behind.status()
        if behind.valid():
            raise EngineFailed("a scan of RocksDB ended before the last key")

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        _check_process()
        with _translated():
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key, value in changes:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
                if batch.size_in_bytes() >= _BATCH_BYTES:  # a write batch keeps a copy of all its keys and values
                    self._database.write(batch, self._unlogged)
                    batch = rocksdict.WriteBatch(raw_mode=True)
            self._database.write(batch, self._unlogged)

    def memory_bytes(self) -> int:
        with _translated():
            readers = self._database.property_int_value("rocksdb.estimate-table-readers-mem") or 0
        return readers + self._engines.share_of_cache()

    def close(self) -> None:
        if self._process != os.getpid():
            return  # the directory belongs to the parent of this forked process
        try:
            with _translated():
                self._database.close()
        # Closing RocksDB writes the data in memory to disk, which may be full. That data is not needed, so a failure is
        # only logged.
        except EngineFailed as error:
            _log.debug("an engine did not close in order, and is removed all the same: %s", error)
        finally:
            self._engines.opened(-1)
            self._directory.remove()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except EngineFailed:
        raise
    except Exception as error:  # the library raises a bare Exception for every failure
        raise EngineFailed(f"RocksDB failed: {error}") from error


class CacheDirectory:
    """A new directory for the database of an engine, and a lock file beside it. The lock shows other processes that
    this process still uses the directory.
    """

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            self.path = parent / f"{_PREFIX}{secrets.token_hex(8)}"
            self._lock_path = self.path.with_name(self.path.name + _LOCK)
            self._lock = os.open(self._lock_path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            if try_lock(self._lock) and self._lock_path.exists():
                break
            os.close(self._lock)  # another process, which took the directory for a leftover, removes it
        self.path.mkdir()

    def remove(self) -> None:
        """Remove the directory and its content. Files that cannot be removed now stay, and another process may remove
        them later.
        """
        shutil.rmtree(self.path, ignore_errors=True)
        _unlink_and_close(self._lock_path, self._lock)


def remove_leftovers(parent: Path) -> int:
    """Remove the directories that engines of ended processes left in ``parent``, and return how many there were."""
    count = 0
    for lock_path in parent.glob(f"{_PREFIX}*{_LOCK}"):
        # Another process is removing the directory as well, or it belongs to another user, whose processes will remove
        # it.
        with suppress(OSError):
            lock = os.open(lock_path, os.O_RDWR)
            try:
                locked = try_lock(lock)
            except OSError:
                locked = False
            if not locked:
                os.close(lock)
                continue
            shutil.rmtree(lock_path.with_name(lock_path.name.removesuffix(_LOCK)), ignore_errors=True)
            _unlink_and_close(lock_path, lock)
            count += 1
    if count:
        _log.info("%d directories in %s that ended processes had left were removed", count, parent)
    return count


def _unlink_and_close(path: Path, descriptor: int) -> None:
    """Remove the lock file at ``path``, which this process holds as ``descriptor``. Windows removes it only once it is
    closed.
    """
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)
    if sys.platform == "win32":
        with suppress(OSError):
            path.unlink()
