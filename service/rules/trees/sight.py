"""See what is at a path of a tree: now, or at the revision of a cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from service.rules.memory.lookup import Lookup
from service.rules.memory.view import View
from service.rules.records import Corrupt, Store
from service.rules.stored.paths import is_below, is_temporary, snapshot_of
from service.rules.stored.trees import Entry, Rollback, Tree, TreePath

ROOT = Entry(born=0, modified="1970-01-01T00:00:00.000Z", directory=True)
"""What is at the empty path of every tree."""


MOST_DEAD = 2000
"""Below a directory so many dead paths are looked through at most, since a decision must not hold up all others."""


def living(view: Lookup, store: Store, tree: Tree, path: str) -> Entry | Corrupt | None:
    """Return what is at a path now; `Corrupt` if its record cannot be read."""
    if not path:
        return ROOT
    record = view.path(store.name, path)
    return living_in(record, store, tree) if isinstance(record, TreePath) else record


def living_in(record: TreePath, store: Store, tree: Tree) -> Entry | None:
    """Return what of a path's record is there now."""
    record = rolled_back(record, tree)
    entry = record.newest
    return None if entry is None or died_at(record.path, entry, store, tree) else entry


def died_at(path: str, entry: Entry, store: Store, tree: Tree) -> int:
    """Return the revision at which an entry died, 0 if it lives. Not every death is in its own record.

    The first sweep that goes over it ended it. What an older epoch wrote under a temporary name died with the grant of
    the current epoch, or an earlier one: nobody may rename it any more.
    """
    swept = (sweep.revision for sweep in tree.sweeps if entry.born <= sweep.revision and is_below(path, sweep.path))
    of_older_epoch = store.granted if entry.born <= store.granted and is_draft(path, entry) else 0
    return min((at for at in (entry.died, of_older_epoch, *swept) if at), default=0)


def is_draft(path: str, entry: Entry) -> bool:
    """Return whether this is a file under a temporary name. No cut shows it, for no driver goes on with it."""
    return not entry.directory and is_temporary(path)


class TooManyDead(Exception):
    """Raised where more paths are ``dead`` below a directory than are looked through.

    A cut or a pin shows them, or they can be trimmed.
    """

    def __init__(self, dead: Sequence[TreePath]) -> None:
        super().__init__(f"{len(dead)} paths are dead")
        self.dead = dead


def living_below(view: View, store: Store, tree: Tree, directory: str) -> Iterator[tuple[str, Entry]]:
    """Yield all paths below a directory and what is there, in no order. Raises `TooManyDead`."""
    dead: list[TreePath] = []
    for record in view.paths(store.name, directory):
        entry = living_in(record, store, tree)
        if entry is not None:
            yield record.path, entry
            continue
        dead.append(record)
        if len(dead) > MOST_DEAD:
            raise TooManyDead(dead)


def shown_at(record: TreePath, revision: int, store: Store, tree: Tree) -> Entry | None:
    """Return what was at a path at the revision of a cut that is kept, or of a pin."""
    record = rolled_back(record, tree)
    for entry in reversed(record.entries):
        if entry.born <= revision and not 0 < died_at(record.path, entry, store, tree) <= revision:
            return None if is_draft(record.path, entry) else entry
    return None


def shown(view: Lookup, store: Store, tree: Tree, path: str) -> Entry | Corrupt | None:
    """Return what is at a path: as `living` does, or, if it lies in a snapshot, what was there at that cut or pin."""
    inside = snapshot_of(path)
    if inside is None:
        return living(view, store, tree, path)
    snapshot, inner = inside
    revision = tree.snapshots.get(snapshot) if snapshot else 0
    if revision is None or not inner:
        return None if revision is None else ROOT
    record = view.path(store.name, inner)
    return shown_at(record, revision, store, tree) if isinstance(record, TreePath) else record


def is_shown(path: str, entry: Entry, died: int, kept: Sequence[int]) -> bool:
    """Return whether a cut or a pin, at one of these sorted revisions, shows an entry that died at this revision."""
    if is_draft(path, entry):
        return False
    first = bisect_left(kept, entry.born)
    return first < len(kept) and kept[first] < died


def rolled_back(record: TreePath, tree: Tree) -> TreePath:
    """Return the record of a path with all rollbacks in it that it does not know of yet.

    What was there at the revision that the tree went back to is there again, and what came later died.
    """
    for rollback in tree.rollbacks:
        if record.rolled_back < rollback.at:
            entries = record.entries if rollback.keeps(record.path) else _undone(record, rollback)
            record = replace(record, entries=entries, rolled_back=rollback.at)
    return record


def _undone(record: TreePath, rollback: Rollback) -> tuple[Entry, ...]:
    """Return the entries as they are after a rollback; what was born after it has nothing to do with it.

    Files under temporary names die: no cut shows them.
    """
    entries: list[Entry] = []
    later = [entry for entry in record.entries if entry.born > rollback.at]
    for entry in record.entries[: len(record.entries) - len(later)]:
        if not entry.died and (entry.born > rollback.to or is_draft(record.path, entry)):
            entry = replace(entry, died=rollback.at)
        entries.append(entry)
        if entry.born <= rollback.to < entry.died and not is_draft(record.path, entry):
            later = [replace(entry, born=rollback.at, died=0, moved_from="")]
    return (*entries, *later)
