"""Reads what the listeners of a command have written about its batches, and finds the directories of their queries.

A listener knows the id of its query, and the history of a job knows the directory of the query's checkpoint. Spark
keeps the id in the file ``metadata`` of that directory.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from milepost.errors import Damaged, NotExist, StateTruncated
from milepost.files import JobFiles
from milepost.rows import REQUEST_SECONDS, BatchRows, RowReports, newest
from milepost.store import StateHandleStore

_log = logging.getLogger(__name__)

_UUID: Final = rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_LINE: Final = re.compile(_UUID + rb"\t(\d{1,18})\t(\d{1,18})")
_ID: Final = re.compile(rb'"id"\s*:\s*"' + _UUID + rb'"')
_MOST_BYTES: Final = 1 << 21
"""The most bytes that one look reads. The listener stops before the file has half as many."""
_MOST_QUERIES: Final = 64
"""The most queries without a known directory whose rows are kept."""
_METADATA_BYTES: Final = 200
_AGAIN_SECONDS: Final = 60.0
"""The seconds after which a query is looked for again that has no directory in the job's files."""


class Line(NamedTuple):
    """A line of a listener: the id of a query, a batch of it, and the number of rows that the batch has read."""

    query: str
    batch: int
    rows: int


class RowsFile:
    """The file at ``path`` to which the listeners append lines; it need not exist. One thread reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = path.with_name(f"{path.name}-taken")
        self._read_to = 0

    def take(self) -> list[Line]:
        """Return the lines since the last call, and take the file away, so that it stays small.

        A listener opens the file for each line. One that opened it before it was taken away writes into that one, so
        the next call reads the rest of it too. What is not the line of a listener is passed over.
        """
        found: list[Line] = []
        try:
            found += self._rest()
            self._taken.unlink(missing_ok=True)
            self._read_to = 0
            with suppress(FileNotFoundError):  # no batch has ended since
                self._path.replace(self._taken)
            found += self._rest()
        except OSError as error:
            _log.debug("the rows of the last batches cannot be read: %s", error)
        return found

    def _rest(self) -> list[Line]:
        try:
            with self._taken.open("rb") as opened:
                opened.seek(self._read_to)
                text = opened.read(_MOST_BYTES)
        except FileNotFoundError:
            return []
        *whole, half = text.split(b"\n")
        self._read_to += len(text) - len(half)
        parts = (_LINE.fullmatch(line) for line in whole)
        return [Line(each[1].decode(), int(each[2]), int(each[3])) for each in parts if each is not None]


class QueryDirectories:
    """The directories of the queries of a job, by what its ``files`` say."""

    def __init__(self, files: JobFiles, clock: Callable[[], float]) -> None:
        self._files = files
        self._clock = clock
        self._query_in: dict[str, str] = {}
        self._missed: set[str] = set()
        self._again = -math.inf

    def find(self, queries: Collection[str]) -> dict[str, list[str]]:
        """Return the directories of each of these queries that has one: two, if someone has copied a checkpoint.

        A query is looked for at once. If it has no directory, since its checkpoint is elsewhere or it has committed no
        batch, the next look follows a minute later. Raises `MilepostError` if the service cannot be asked.
        """
        missing = set(queries) - set(self._query_in.values())
        if missing and (not missing <= self._missed or self._clock() >= self._again):
            self._look(missing)
        found: dict[str, list[str]] = {}
        for directory, query in self._query_in.items():
            if query in queries:
                found.setdefault(query, []).append(directory)
        return found

    def _look(self, missing: set[str]) -> None:
        """Read the ids of the directories, first of those that are new; of the others only if a query is still missing,
        which may have begun anew in one of them.
        """
        kept = self._files.snapshots(timeout=REQUEST_SECONDS)
        directories = {snapshot.directory for snapshot in kept.snapshots}
        for part in (directories - self._query_in.keys(), directories & self._query_in.keys()):
            if not missing <= set(self._query_in.values()):
                for directory in sorted(part):
                    self._query_in[directory] = self._id_in(directory)
        self._missed = missing - set(self._query_in.values())
        self._again = self._clock() + _AGAIN_SECONDS

    def _id_in(self, directory: str) -> str:
        path = f"{directory}/metadata".lstrip("/")
        try:
            text = self._files.read(path, 0, _METADATA_BYTES, timeout=REQUEST_SECONDS)
        except (Damaged, NotExist, StateTruncated):
            return ""
        found = _ID.search(text)
        return "" if found is None else found[1].decode()


class CommandRows:
    """The rows of the batches of one start of a command, whose listeners append to ``file``."""

    def __init__(self, file: RowsFile, directories: QueryDirectories) -> None:
        self._file = file
        self._directories = directories
        self._waiting: dict[str, dict[int, int]] = {}

    def collect(self) -> list[BatchRows]:
        """Return the batches since the last call whose query has a directory. Others are kept for the next call, of
        each query the newest. Raises `MilepostError` if the service cannot be asked for directories; nothing is lost
        then.
        """
        for query, batch, rows in self._file.take():
            self._waiting[query] = newest({**self._waiting.pop(query, {}), batch: rows})
        for query in list(self._waiting)[:-_MOST_QUERIES]:
            del self._waiting[query]
        return [
            BatchRows(directory, batch, rows)
            for query, directories in self._directories.find(self._waiting.keys()).items()
            for batch, rows in self._waiting.pop(query).items()
            for directory in directories
        ]


@contextmanager
def reported(store: StateHandleStore, path: Path) -> Iterator[None]:
    """Report to the history of the job, under the epoch of ``store``, what the listeners of a command append to the
    file at ``path``. The command runs within the block; what it has written last is reported at the end.
    """
    rows = CommandRows(RowsFile(path), QueryDirectories(store.files, time.monotonic))
    reports = RowReports(store, rows.collect)
    reports.start()
    try:
        yield
    finally:
        reports.close()
