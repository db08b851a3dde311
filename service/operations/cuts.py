"""Operations on what is kept of a tree: look at its cuts, pin one, verify their files, go back to one, clone one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.journal import Journal
from service.operations.cloning import Cloning
from service.operations.records import store_in
from service.operations.trees import tree_in
from service.operations.verification import Verification
from service.replica.submitter import Caller, Reply, Submitter
from service.replica.trees.loading import Manifests
from service.rules.decisions import Answer
from service.rules.memory.lookup import Lookup
from service.rules.records import Store
from service.rules.requests import PinCut, RollBack, Unpin
from service.rules.stored.paths import SNAPSHOTS
from service.rules.stored.trees import Cut, Entry, Pin, Tree
from service.rules.trees.visibility import shown


class CutOperations:
    """The operations on the cuts and pins of a store's tree."""

    def __init__(
        self,
        journal: Journal,
        submitter: Submitter,
        manifests: Manifests,
        verification: Verification,
        cloning: Cloning,
    ) -> None:
        self._journal = journal
        self._submitter = submitter
        self._manifests = manifests
        self._verification = verification
        self._cloning = cloning

    def kept(self, store: str) -> Reply:
        """Return what is kept of a tree: cuts, pins, and what rollbacks passed over, each the oldest first.

        Raises ``corrupt`` problems.
        """
        reading = self._journal.read()
        record = store_in(reading.view, store)
        tree = tree_in(reading.view, store)

        def describe(cut: Cut | Pin) -> dict[str, Any]:
            return cut_body(cut) | _commit(reading.view, record, tree, cut)

        body = {
            "cuts": [describe(cut) for cut in tree.cuts],
            "pins": [{"name": pin.name, **describe(pin)} for pin in tree.pins],
            "passedOver": [describe(cut) for cut in tree.passed_over],
        }
        return Reply(Answer(body), reading.revision, reading.term)

    async def verify(self, store: str, *, digests: bool) -> Reply:
        """Check that the bytes of all files are there, now and at each cut and pin; with ``digests``, read them all.

        Raises problems: ``corrupt`` if it is not known what the tree has, ``storage-unavailable``, ``no-leader``.
        """
        await self._manifests.ready(store)
        report = await self._verification.verify(store, digests=digests)
        kept = self.kept(store)
        return replace(kept, answer=Answer(report.body(kept.answer.body)))

    async def pin(self, caller: Caller, store: str, name: str, revision: int) -> Reply:
        """Keep the cut at ``revision``, or the newest if that is 0, under a name. Raises problems."""
        return await self._submitter.perform(PinCut(caller.attempt, store, name, revision))

    async def unpin(self, caller: Caller, store: str, name: str) -> Reply:
        """Keep a cut no longer for the sake of its name. Raises problems."""
        return await self._submitter.perform(Unpin(caller.attempt, store, name))

    async def roll_back(self, caller: Caller, store: str, revision: int, keep: tuple[str, ...]) -> Reply:
        """Let the tree be what it was at the revision of a cut or a pin, under the caller's epoch; but what is at the
        paths ``keep``, and below them, stays. Raises problems.
        """
        await self._manifests.ready(store)
        return await self._submitter.perform(RollBack(caller.attempt, store, "", caller.epoch, revision, keep))

    async def clone(self, caller: Caller, store: str, source: str, snapshot: str) -> Reply:
        """Let the empty tree of ``store`` begin with what a snapshot of ``source`` shows. Raises problems.

        Its files are copied first, which takes long if they are many.
        """
        return await self._cloning.clone(caller, store, source, snapshot)


def cut_body(cut: Cut | Pin) -> dict[str, Any]:
    """Return a cut or a pin as JSON."""
    return {"directory": cut.directory, "batch": cut.batch, "revision": cut.revision}


def _commit(view: Lookup, store: Store, tree: Tree, cut: Cut | Pin) -> dict[str, Any]:
    """Return when the batch of a cut was committed, and under which epoch, as JSON; null where that is not known."""
    inside = f"{cut.directory}/" if cut.directory else ""
    commit = shown(view, store, tree, f"{SNAPSHOTS}/@{cut.revision}/{inside}commits/{cut.batch}")
    if not isinstance(commit, Entry):
        return {"taken": None, "epoch": None}
    return {"taken": commit.modified, "epoch": commit.epoch}
