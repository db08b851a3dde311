"""The leader's maintenance of trees: drop entries that no reader can see any more, a batch at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from msgspec.structs import replace

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.journal import Journal
from milepost_server.memory.lookup import ManifestsNotLoaded
from milepost_server.memory.state import State
from milepost_server.model.paths import LAST
from milepost_server.model.records import Store
from milepost_server.model.requests.base import LEADER
from milepost_server.model.requests.trees import TrimTree
from milepost_server.model.trees import RangeTombstone, Tree, TreePath
from milepost_server.replica.submitter import commit
from milepost_server.replica.trees.manifests import Manifests
from milepost_server.rules.trees.maintenance import trimmed_of

log = logging.getLogger("milepost.maintenance")

_BATCH = 100
"""The most paths that one commit trims."""

_LATEST = 2**63

At = tuple[int, str]
"""A revision at which an entry of a path was created or deleted, and the path."""


@dataclass(eq=False, slots=True)
class _Pass:
    """One pass of trimming over a tree.

    ``step`` is a future that ends when some range tombstones or rollbacks are finished; a new future then replaces it.
    ``committed`` is whether the pass has dropped anything.
    """

    task: asyncio.Task[None]
    step: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    committed: bool = False

    def advance(self) -> None:
        """Wake the tasks that wait for the end of a range tombstone or a rollback."""
        self.step.set_result(None)
        self.step = asyncio.get_running_loop().create_future()


class Trimming:
    """Trims the trees of a journal, at intervals, and at once if a request needs it.

    A deleted entry is kept while a snapshot or a savepoint shows it. When a snapshot or savepoint is dropped, only
    entries that were deleted before the next one can lose their last reader, so trimming checks only these entries. At
    the beginning of a leadership, all deleted entries are checked.
    """

    def __init__(
        self, journal: Journal, manifests: Manifests, loop_time: LoopTimeBudget, clock: Callable[[], float]
    ) -> None:
        self._journal = journal
        self._manifests = manifests
        self._loop_time = loop_time
        self._clock = clock
        self._kept: dict[str, tuple[int, ...]] = {}
        self._generation = 0
        self._passes: dict[str, _Pass] = {}

    async def run(self, interval: float) -> None:
        """Trim all trees at intervals, until cancelled."""
        try:
            while True:
                await asyncio.sleep(interval)
                for store in self._state().stores_to_trim() if self._journal.lease_holds() else ():
                    task = self._begun(store).task
                    await asyncio.wait((task,))
                    _raise_fault(task)
        finally:
            for each in self._passes.values():
                each.task.cancel()

    async def make_room(self, store: str, deadline: float) -> bool:
        """Trim a tree at once, because a request needs it; return whether the request is worth another attempt.

        The method returns True as soon as a range tombstone or a rollback is finished, so that a large directory does
        not delay all requests. It returns False if there was nothing to drop, or at the deadline (monotonic seconds).
        """
        joined = store in self._passes
        running = self._begun(store)
        ends, seconds = (running.task, running.step), max(0.0, deadline - self._clock())
        done, _ = await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        _raise_fault(running.task)
        return bool(done) and (joined or running.committed)

    def _begun(self, store: str) -> _Pass:
        """Return the running pass over the tree of a store; begin a pass if none is running."""
        running = self._passes.get(store)
        if running is None:
            running = self._passes[store] = _Pass(asyncio.create_task(self._pass(store)))
            running.task.add_done_callback(lambda _: self._passes.pop(store))
        return running

    async def _pass(self, store: str) -> None:
        try:
            await self._manifests.ready(store)
            await self.trim(store)
        except (Problem, ManifestsNotLoaded) as error:
            log.warning("cannot tidy up the tree of %s now, trying again later: %s", store, error)

    async def trim(self, store: str) -> None:
        """Drop from a store's tree what no reader can see any more. Raises `Problem` if a commit fails."""
        if self._generation != self._journal.generation:
            self._generation, self._kept = self._journal.generation, {}
        record, tree = self._records(store)
        if tree is None:
            return
        # Keep tombstones and rollbacks while a record is damaged: they must still apply to an older copy of the record
        # that an operator may put back.
        if not any(self._state().damaged_paths(store)):
            await self._finish_range_tombstones(store, tree.range_tombstones)
            for rollback in tree.rollbacks:
                await self._each(store, partial(_below, store, ""), (0, ""))
                await self._commit(store, TrimTree(LEADER, store, rollbacks=(rollback,)))
        for first, last in _gone(self._kept.get(store), tree.kept):
            await self._each(store, partial(_died, store, last), (first, LAST))
        self._kept[store] = tree.kept
        await self._each(store, lambda state, after: state.temporary_files(store, after, record.granted), (0, ""))

    async def _finish_range_tombstones(self, store: str, range_tombstones: Sequence[RangeTombstone]) -> None:
        """Trim all paths below deleted directories, and commit that their range tombstones are finished.

        The directories take turns, with one batch of paths each, so that a large directory does not delay others. Small
        directories share a commit.
        """
        left: dict[RangeTombstone, At] = dict.fromkeys(range_tombstones, (0, ""))
        paths: list[str] = []
        ended: list[RangeTombstone] = []
        while left:
            for tombstone, after in list(left.items()):
                room = _BATCH - len(paths)
                found = await self._some(store, partial(_below, store, tombstone.path), after, room)
                paths += [path for _, path in found]
                if len(found) < room:
                    del left[tombstone]
                    ended.append(tombstone)
                else:
                    left[tombstone] = found[-1]
                if len(paths) == _BATCH:
                    await self._commit(store, TrimTree(LEADER, store, tuple(paths), tuple(ended)))
                    paths, ended = [], []
        if ended:
            await self._commit(store, TrimTree(LEADER, store, tuple(paths), tuple(ended)))

    async def _each(self, store: str, paths: Callable[[State, At], Iterator[At]], after: At) -> None:
        """Trim those of the paths whose records have something to drop, in several commits. ``paths`` yields pairs of a
        revision and a path that come after a given pair; the first call is given ``after``.
        """
        while found := await self._some(store, paths, after, _BATCH):
            await self._commit(store, TrimTree(LEADER, store, tuple([path for _, path in found])))
            after = found[-1]

    async def _some(self, store: str, paths: Callable[[State, At], Iterator[At]], after: At, most: int) -> list[At]:
        """Return the first pairs of ``paths`` after the pair ``after`` whose paths have something to drop, ``most`` at
        most. ``paths`` yields pairs of a revision and a path that come after a given pair.
        """
        found: list[At] = []

        def judge(at: At) -> bool:
            record, tree = self._records(store)
            path = self._state().path(store, at[1])
            if tree is not None and isinstance(path, TreePath) and trimmed_of(path, record, tree) != path:
                found.append(at)
            return len(found) == most

        await self._loop_time.each_after(lambda last: paths(self._state(), last), after, judge)
        return found

    async def _commit(self, store: str, request: TrimTree) -> None:
        """Commit the request, in several parts if its records are too large for one commit. The last part drops the
        finished tombstones and rollbacks.
        """
        try:
            await commit(self._journal, request, self._clock)
        except Problem as error:
            if error.code is not Code.TOO_LARGE or len(request.paths) < 2:
                raise
            half = len(request.paths) // 2
            await self._commit(store, TrimTree(LEADER, store, request.paths[:half]))
            await self._commit(store, replace(request, paths=request.paths[half:]))
            return
        running = self._passes.get(store)
        if running is not None:
            running.committed = True
            if request.range_tombstones or request.rollbacks:
                running.advance()

    def _records(self, store: str) -> tuple[Store, Tree | None]:
        state = self._state()
        record, tree = state.store(store), state.tree(store)
        if not isinstance(record, Store) or not isinstance(tree, Tree | None):
            # the store's or the tree's own record is damaged, so it is unknown which entries are visible
            return Store(store), None
        return record, tree or Tree(store)

    def _state(self) -> State:
        return self._journal.state()


def _raise_fault(task: asyncio.Task[None]) -> None:
    """Raise the exception of a failed pass, unless it is an error of the storage, after which the next pass tries
    again.
    """
    if task.done() and not task.cancelled():
        task.result()


def _below(store: str, directory: str, state: State, after: At) -> Iterator[At]:
    return ((0, path) for path in state.paths(store, directory, after[1]))


def _died(store: str, until: int, state: State, after: At) -> Iterator[At]:
    return state.dead_paths(store, after, until)


def _gone(before: tuple[int, ...] | None, now: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the ranges of revisions in which deleted entries may have lost their last reader, because snapshots or
    savepoints were dropped.

    ``now`` has the revisions of those that exist, ``before`` of those that existed at the last pass, None if unknown.
    """
    if before is None:
        return [(0, _LATEST)]
    spans = pairwise((*sorted({*before, *now}), _LATEST))
    return [(first, last) for first, last in spans if first not in now]
