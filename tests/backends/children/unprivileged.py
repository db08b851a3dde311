"""Opens each embedded backend in a directory as a user who may not write there; prints what that raises."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from milepost_backends.contract import BackendError
from milepost_backends.embedded.election import EmbeddedElection
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_backends.local.blobs import LocalBlobs

NOBODY = 65534


async def ends_of_open(directory: Path) -> list[str]:
    ends = []
    for backend in (EmbeddedPointers(directory), EmbeddedElection(directory, "http://a"), LocalBlobs(directory)):
        try:
            await backend.open()
        except BackendError as error:
            ends.append(type(error).__name__)
        else:
            await backend.close()
            ends.append("open")
    return ends


async def main(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as own:
        await ends_of_open(Path(own))  # so that nothing is imported later, from where this user may not read
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    print(*await ends_of_open(directory), sep="\n", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
