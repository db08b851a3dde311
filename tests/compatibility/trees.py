"""A tree of files with every kind of entry in it: in a manifest and in records of their own, ended, renamed, and swept.

``python -m tests.compatibility.trees DIRECTORY`` writes it with the present version, into an empty directory.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from milepost_server.operations.trees import At
from tests.compatibility.restored import STORED
from tests.corrupt.files import FileHistory
from tests.corrupt.trial import SETTINGS
from tests.service.acting import STORE
from tests.support.servers.replicas import Rig, embedded, rig

RECORDED = STORED / "trees"


class TreeHistory(FileHistory):
    """The history of `FileHistory`, a directory that was deleted whole, and a file under a temporary name."""

    async def write_all(self, running: Rig) -> None:
        """Write it."""
        await self.begin(running)
        await self.go_on(running)
        for path in ("gone/a", "gone/b/c", "state/.24.tmp"):
            await self._put(running, path)
        assert await running.operations.trees.delete(At(STORE, "gone"), self.epoch, recursive=True)
        self.files |= {"gone/a": None, "gone/b/c": None}

    def told(self) -> str:
        """What was acknowledged, as JSON."""
        files = {path: None if content is None else content.decode() for path, content in self.files.items()}
        return json.dumps({"epoch": self.epoch, "files": files}, indent=1, sort_keys=True) + "\n"

    @classmethod
    def read(cls) -> TreeHistory:
        """What was acknowledged when the tree was recorded."""
        told = json.loads((RECORDED / "acknowledged.json").read_text())
        files = {path: None if content is None else content.encode() for path, content in told["files"].items()}
        return cls(epoch=told["epoch"], files=files)


async def _record(directory: Path) -> None:
    history = TreeHistory()
    async with rig(embedded(directory), SETTINGS) as running:
        await history.write_all(running)
        await running.emptied_trash()
    (directory / "acknowledged.json").write_text(history.told())


if __name__ == "__main__":
    asyncio.run(_record(Path(sys.argv[1])))
