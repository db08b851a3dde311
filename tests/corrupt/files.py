"""Files of a tree that were acknowledged before something is damaged: in a manifest and its pack, and in own records.

What is at each path must be served as it was put, or be named as lost; a listing must show all of it, or name a loss.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.model.requests.handles import Resign
from milepost_server.model.requests.trees import OntoExisting
from milepost_server.operations.trees import At
from tests.corrupt.history import History, Silent, named
from tests.service.acting import STORE, actor
from tests.support.files import put_at, read
from tests.support.servers.replicas import Rig

_FOLDED = tuple(f"state/{number:02}" for number in range(24))
CHANGED = "live/0"
"""The path of a file that has a record of its own before and after the history goes on, and is not the same then."""


@dataclass
class FileHistory(History):
    """What was acknowledged: the bytes at each path, None where a file was deleted; all that ever was there."""

    files: dict[str, bytes | None] = field(default_factory=dict)
    ever: dict[str, set[bytes]] = field(default_factory=dict)

    async def begin(self, rig: Rig) -> None:
        """Put files, compact them into a manifest, and put some more."""
        self.epoch = await (await actor(rig, "writer")).campaign()
        for path in (*_FOLDED, "commits/0"):
            await self._put(rig, path)
        await rig.replica._compaction.compact(STORE)
        assert await _is_compacted(rig)
        for number in range(4):
            await self._put(rig, f"live/{number}")

    async def go_on(self, rig: Rig) -> None:
        """Replace, delete, rename, commit, and win the next epoch: an older copy of anything lacks a part of this."""
        for directory, first in (("live", "0"), ("state", "01")):
            await self._put(rig, f"{directory}/{first}")
        await self._delete(rig, "live/1")
        await self._delete(rig, "state/02")
        await self._rename(rig, "live/2", "live/9")
        await self._rename(rig, "state/03", "state/moved")
        writer = self._writer(rig)
        await rig.operations.perform(Resign(writer.caller.attempt, STORE))
        self.epoch = await writer.campaign()
        await self._put(rig, "commits/1")
        await self._put(rig, "live/5")

    async def write(self, rig: Rig, numbers: range) -> None:
        """Put files of these numbers, as far as manifests can be read; the leader looks after those."""
        for number in numbers:
            await self._put(rig, f"more/{number}")
        await rig.replica.manifest_check.check(STORE)

    async def losses(self, rig: Rig) -> list[str]:
        """See `History.losses`."""
        found = []
        for path, content in self.files.items():
            try:
                read = await _read(rig, path)
            except Problem as problem:
                found.append(_lost(path, problem))
                continue
            if read != content:
                raise Silent(f"{path} is served as {read!r}, and was acknowledged as {content!r}")
        for directory in sorted({path.partition("/")[0] for path, content in self.files.items() if content}):
            there = sorted(path for path, content in self.files.items() if content and path.startswith(f"{directory}/"))
            try:
                listed = await _listed(rig, directory)
            except Problem as problem:
                found.append(_lost(f"{directory}/", problem))
                continue
            if listed != there:
                raise Silent(f"{directory} is listed as {listed}, and {there} was acknowledged")
        return found + await self._epoch_rises(rig)

    async def nothing_wrong(self, rig: Rig) -> None:
        """See `History.nothing_wrong`."""
        reader = await actor(rig, "owner")
        for path in self.files:
            with suppress(Problem):
                read = await _read(rig, path)
                if read is not None and read not in self.ever[path]:
                    raise Silent(f"{path} is served as {read!r}")
        with suppress(Problem):
            await rig.operations.perform(Resign(self._writer(rig).caller.attempt, STORE))
        self._rose(await reader.campaign())

    async def _put(self, rig: Rig, path: str) -> None:
        """Every other file is small, and has no blob of its own."""
        content = f"{path} under {self.epoch} ".encode() * (1 if len(self.ever) % 2 else 20)
        key = f"put {path} {len(self.ever.get(path, ()))}"
        await put_at(rig.replica, rig.operations, At(STORE, path), self.epoch, content, overwrite=True, key=key)
        self._has(path, content)

    async def _delete(self, rig: Rig, path: str) -> None:
        assert await rig.operations.trees.delete(At(STORE, path), self.epoch, recursive=False)
        self.files[path] = None

    async def _rename(self, rig: Rig, path: str, target: str) -> None:
        assert await rig.operations.trees.rename(At(STORE, path), target, self.epoch, OntoExisting.REFUSE)
        content = self.files[path]
        assert content is not None
        self.files[path] = None
        self._has(target, content)

    def _has(self, path: str, content: bytes) -> None:
        self.files[path] = content
        self.ever.setdefault(path, set()).add(content)


async def _read(rig: Rig, path: str) -> bytes | None:
    try:
        return await read(rig, path)
    except Problem as problem:
        if problem.code is Code.NOT_EXIST:
            return None
        raise


async def _listed(rig: Rig, directory: str) -> list[str]:
    trees = rig.operations.trees
    await trees.ready(STORE)
    return [f"{directory}/{name}" for name, _ in await trees.children(At(STORE, directory))]


async def _is_compacted(rig: Rig) -> bool:
    state = rig.replica.journal.read().view.state
    return not list(state.own_paths(STORE)) and len(state.manifests(STORE)) == 1


def _lost(what: str, problem: Problem) -> str:
    if problem.code is Code.NO_LEADER:
        raise problem
    return named(what, problem)
