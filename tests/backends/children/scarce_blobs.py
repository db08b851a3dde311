"""Puts a blob that does not fit, looks at what is there, gets room, and puts it again. See scarce_pointers.py."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from milepost_backends.contract import BackendError
from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.local.tree import TEMPORARY
from tests.contracts.streams import fresh_stream, keys, read, stream

MIB = 1024 * 1024


def limit_file_size(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def no_room_at_all(scarce: str, place: Path) -> Iterator[None]:
    """Not for a single byte."""
    filler = place / "filler"
    if scarce == "file-size":
        limit_file_size(0)
    else:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 512):
                pass
    yield
    filler.unlink(missing_ok=True)


def more_room(scarce: str, place: Path) -> None:
    limit_file_size(resource.RLIM_INFINITY)
    if scarce == "disk":
        (place / "ballast").unlink()


async def end_of_put(store: LocalBlobs) -> str | int:
    """Put 4 MiB."""
    try:
        return await store.put("large", fresh_stream(64, MIB // 16))
    except BackendError as error:
        return type(error).__name__


async def end_of_open(place: Path) -> str:
    store = LocalBlobs(place)
    try:
        await store.open()
    except BackendError as error:
        return type(error).__name__
    await store.close()
    return "open"


async def main(scarce: str, place: Path) -> None:
    if scarce == "file-size":
        limit_file_size(2 * MIB)
    store = LocalBlobs(place / "data")
    await store.open()
    await store.put("before", stream(b"before"))
    report: dict[str, object] = {"large": await end_of_put(store)}
    await store.put("small", stream(b"small"))
    report["listed"] = await keys(store)
    report["temporary"] = os.listdir(place / "data" / TEMPORARY)
    with no_room_at_all(scarce, place):
        report["opened when full"] = await end_of_open(place / "data")
        report["read when full"] = (await read(store, "before")).decode()
        await store.delete("before")
    more_room(scarce, place)
    report["large with room"] = await end_of_put(store)
    report["listed at last"] = await keys(store)
    await store.close()
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
