"""Opens each embedded backend in a directory as a user who may not write there; prints what that raises."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from backends.blobs.local import LocalBlobs
from backends.contract import BackendError
from backends.elections.embedded import EmbeddedElection
from backends.pointers.embedded import EmbeddedPointers

NOBODY = 65534


async def main(directory: Path) -> None:
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    for backend in (EmbeddedPointers(directory), EmbeddedElection(directory, "http://a"), LocalBlobs(directory)):
        try:
            await backend.open()
        except BackendError as error:
            print(type(error).__name__, flush=True)
        else:
            await backend.close()
            print("open", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
