"""Commits until there is no more room, sees what a crash would leave, gets room again, and goes on.

With ``disk`` the room is that of the file system, which the parent made small and on which a file called ballast lies.
With ``file-size`` it is the process's own limit on the size of files, which fails writes with EFBIG. With ``pages`` it
is SQLite's limit on the pages of a database, which fails statements with SQLITE_FULL. With ``quota`` a write fails as
with ``file-size``, and a request to the system for more room fails because a quota is used up: that alone is made up,
since it takes a file system with quotas.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from milepost_backends.contract import Change, CommitRefused, Done, Head, PointerStore
from milepost_backends.embedded.pointers import FILE_NAME, EmbeddedPointers

LIMIT = 400_000
PAGES = 100


def limit_file_size(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def few_pages() -> Iterator[None]:
    """Connections that are opened within the block hold a database to `PAGES` for good."""
    connect = sqlite3.connect

    def limited(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **named)
        connection.execute(f"PRAGMA max_page_count = {PAGES}")
        return connection

    with mock.patch.object(sqlite3, "connect", limited):
        yield


@contextmanager
def no_more_room() -> Iterator[None]:
    """Room is asked for with fallocate."""
    used_up = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    with mock.patch.object(os, "posix_fallocate", side_effect=used_up):
        yield


def copy_database(directory: Path, scratch: Path) -> None:
    scratch.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(directory / (FILE_NAME + suffix), scratch / (FILE_NAME + suffix))


async def groups(store: PointerStore, head: Head) -> list[int]:
    """The numbers of the groups that are there, each of them whole."""
    parts: dict[int, int] = {}
    async for key, _ in store.load(head):
        number = int(key.split("/")[0])
        parts[number] = parts.get(number, 0) + 1
    assert set(parts.values()) <= {8}
    return sorted(parts)


async def after_a_crash(directory: Path, scratch: Path) -> list[int]:
    """What recovery finds in the files as they lie there now."""
    copy_database(directory, scratch)
    store = EmbeddedPointers(scratch)
    await store.open()
    found = await groups(store, await store.take_over("root"))
    await store.close()
    return found


async def main(scarce: str, place: Path, scratch: Path) -> None:
    store = EmbeddedPointers(place / "data")
    with few_pages() if scarce == "pages" else nullcontext():
        await store.open()
    head = await store.take_over("root")
    if scarce in ("file-size", "quota"):
        limit_file_size(LIMIT)
    acknowledged = 0
    with no_more_room() if scarce == "quota" else nullcontext():
        while True:
            group = [Change(f"{acknowledged}/{part}", os.urandom(3000)) for part in range(8)]
            end = await store.commit(head, group, head.revision + 1)
            if not isinstance(end, Done):
                break
            head, acknowledged = end.head, acknowledged + 1
    limit_file_size(resource.RLIM_INFINITY)
    crashed = await after_a_crash(place / "data", scratch)
    if scarce == "disk":
        (place / "ballast").unlink()
    if scarce == "pages":
        await store.close()
        await store.open()
    head = await store.take_over("root")
    found = await groups(store, head)
    again = await store.commit(head, [Change(f"{acknowledged}/{part}", b"") for part in range(8)], head.revision + 1)
    await store.close()
    report = {
        "end": end.reason.name if isinstance(end, CommitRefused) else "UNKNOWN",
        "acknowledged": list(range(acknowledged)),
        "after a crash": crashed,
        "after a take-over": found,
        "goes on": isinstance(again, Done),
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
