"""The leader's upkeep of trees: it drops what nothing shows any more, a batch at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

from milepost.errors import Problem
from milepost.wire import Code
from service.basics.slices import Slices
from service.journal import Journal
from service.replica.commits import commit
from service.replica.trees.loading import Manifests
from service.rules.memory.lookup import ManifestsNotLoaded
from service.rules.memory.state import State
from service.rules.records import Store
from service.rules.requests import LEADER, TrimTree
from service.rules.stored.paths import LAST
from service.rules.stored.trees import Tree, TreePath
from service.rules.trees.trimming import trimmed_of

log = logging.getLogger("milepost.upkeep")

_BATCH = 100
"""How many paths one commit trims."""

_LATEST = 2**63

At = tuple[int, str]
"""A path behind the revision at which something happened to it."""


class Trimming:
    """Trims the trees of a journal, one after the other.

    An entry that died is kept while a cut or a pin shows it. When one of these goes, only what died before the next one
    may have to go with it; that is what is looked at, and, at the beginning of a leadership, everything that died.
    """

    def __init__(self, journal: Journal, manifests: Manifests, slices: Slices, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._manifests = manifests
        self._slices = slices
        self._clock = clock
        self._kept: dict[str, tuple[int, ...]] = {}
        self._generation = 0

    async def run(self, interval: float) -> None:
        """Trim all trees, again and again, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            for store in self._state().stores_to_trim() if self._journal.lease_holds() else ():
                try:
                    await self._manifests.ready(store)
                    await self.trim(store)
                except (Problem, ManifestsNotLoaded) as error:
                    log.warning("cannot tidy up the tree of %s, trying again in %s s: %s", store, interval, error)

    async def trim(self, store: str) -> None:
        """Trim the tree of a store. Raises problems."""
        if self._generation != self._journal.generation:
            self._generation, self._kept = self._journal.generation, {}
        record, tree = self._records(store)
        if tree is None:
            return
        if not any(self._state().damaged_paths(store)):  # such a record may be put back, and knows of none of them
            for sweep in tree.sweeps:
                await self._finish(store, sweep.path, TrimTree(LEADER, store, sweeps=(sweep,)))
            for rollback in tree.rollbacks:
                await self._finish(store, "", TrimTree(LEADER, store, rollbacks=(rollback,)))
        for first, last in _gone(self._kept.get(store), tree.kept):
            await self._each(store, partial(_died, store, last), (first, LAST))
        self._kept[store] = tree.kept
        await self._each(store, lambda state, after: state.drafts(store, after, record.granted), (0, ""))

    async def _finish(self, store: str, directory: str, end: TrimTree) -> None:
        """Trim all paths below a directory, and commit that all of them are."""

        def below(state: State, after: At) -> Iterator[At]:
            return ((0, path) for path in state.paths(store, directory, after[1]))

        await self._each(store, below, (0, ""))
        await commit(self._journal, end, self._clock)

    async def _each(self, store: str, paths: Callable[[State, At], Iterator[At]], after: At) -> None:
        """Trim each of these paths of which something is to be dropped."""
        found: list[At] = []

        def judge(at: At) -> bool:
            record, tree = self._records(store)
            path = self._state().path(store, at[1])
            if tree is not None and isinstance(path, TreePath) and trimmed_of(path, record, tree) != path:
                found.append(at)
            return len(found) == _BATCH

        while True:
            found.clear()
            await self._slices.each_after(lambda last: paths(self._state(), last), after, judge)
            if not found:
                return
            await self._commit(store, [path for _, path in found])
            after = found[-1]

    async def _commit(self, store: str, paths: Sequence[str]) -> None:
        """Trim these paths in one commit, or in more where their records are too large for one."""
        try:
            await commit(self._journal, TrimTree(LEADER, store, tuple(paths)), self._clock)
        except Problem as error:
            if error.code is not Code.TOO_LARGE or len(paths) == 1:
                raise
            half = len(paths) // 2
            await self._commit(store, paths[:half])
            await self._commit(store, paths[half:])

    def _records(self, store: str) -> tuple[Store, Tree | None]:
        state = self._state()
        record, tree = state.store(store), state.tree(store)
        if not isinstance(record, Store) or not isinstance(tree, Tree | None):
            return Store(store), None  # a damaged record may hide what is still shown
        return record, tree or Tree(store)

    def _state(self) -> State:
        return self._journal.read().view.state


def _died(store: str, until: int, state: State, after: At) -> Iterator[At]:
    return state.dead_paths(store, after, until)


def _gone(before: tuple[int, ...] | None, now: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return in which spans of revisions something may have died that only a revision showed that is not kept any more.

    ``before`` were the revisions that were kept, None if that is not known.
    """
    if before is None:
        return [(0, _LATEST)]
    spans = pairwise((*sorted({*before, *now}), _LATEST))
    return [(first, last) for first, last in spans if first not in now]
