"""Cleans a state store up: removes the files that neither a kept version nor a pin (a version kept under a name)
needs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import chain

from milepost.state.errors import FileMissing, StateDamaged, VersionNotFound
from milepost.state.store.format.heads import Commit
from milepost.state.store.format.names import Kind, StateFileName, parse_name
from milepost.state.store.history import History, Listing

_log = logging.getLogger(__name__)


def clean(history: History, newest: Commit, *, keep: int, grace: float) -> int:
    """Remove the files that neither the last ``keep`` versions up to ``newest`` nor a pin need, and return their
    number.

    Only files of versions before the oldest kept one are removed. Some of these may belong to another writer: commits
    that are not predecessors of ``newest``, and merged files (runs) that no snapshot names. These are removed only once
    they are older than ``grace`` seconds. If the needed files cannot be determined, nothing is removed.
    """
    oldest = newest[0] - keep + 1
    if oldest <= 1:
        return 0
    listing = history.list()
    try:
        needed = set(_needed(history, listing, newest, oldest))
        for pin in chain.from_iterable(listing.pins.values()):
            needed.update((pin, *_needed(history, listing, (pin.version, pin.id), pin.version)))
        for snapshot in listing.of_kind(Kind.SNAPSHOT):
            if snapshot.version >= oldest:
                needed.update((snapshot, *_parts(history, snapshot)))
    except (StateDamaged, VersionNotFound, FileMissing) as error:
        _log.warning(
            "nothing of %s is cleaned up, since it is not known what is needed: %s", history.store.directory, error
        )
        return 0
    past = _past(history, newest)
    doomed = [name for name in listing.infos if name not in needed and name.version < oldest]
    own = {name for name in doomed if name.kind is not Kind.RUN and (name.version, name.id) in past}
    own.update(_named_by(history, (name for name in own if name.kind is Kind.SNAPSHOT)))
    return _remove(history, [name for name in doomed if name in own or listing.infos[name].age > grace])


def _needed(history: History, listing: Listing, newest: Commit, oldest: int) -> Iterable[StateFileName]:
    """Iterate over the files that are needed to open the versions from ``oldest`` to ``newest``, and to list their
    changes. These are the newest snapshot of ``oldest`` or an earlier version whose files all exist, the commits from
    that version on, and the snapshots of these commits.
    """
    for commit in history.lineage(newest):
        name = StateFileName(Kind.DELTA, *commit)
        if name not in listing.infos:
            raise VersionNotFound(f"{history.path(name)} is missing")
        yield name
        whole = [one for one in listing.snapshots.get(commit, ()) if not listing.lacks(history.snapshot(one))]
        for snapshot in whole:
            yield snapshot
            yield from _parts(history, snapshot)
        if commit[0] <= oldest and whole:
            return


def _parts(history: History, snapshot: StateFileName) -> list[StateFileName]:
    parts = (parse_name(part.name) for run in history.snapshot(snapshot).runs for part in run.parts)
    return [part for part in parts if part is not None]


def _named_by(history: History, snapshots: Iterable[StateFileName]) -> list[StateFileName]:
    found = []
    for snapshot in snapshots:
        try:
            found += _parts(history, snapshot)
        except (StateDamaged, FileMissing) as error:
            _log.info("what an old snapshot names is removed once it is old, as this cannot be read: %s", error)
    return found


def _past(history: History, newest: Commit) -> set[Commit]:
    """Return the commit ``newest`` and its predecessors, as far back as their files exist."""
    found = set()
    try:
        for commit in history.lineage(newest):
            found.add(commit)
    except (VersionNotFound, StateDamaged):
        pass  # the files of older commits were removed
    return found


def _remove(history: History, doomed: list[StateFileName]) -> int:
    """Remove the files ``doomed``, snapshots first: if a removal fails, no remaining snapshot names a removed file.
    Return their number.
    """
    order = [Kind.SNAPSHOT, Kind.RUN, Kind.DELTA, Kind.PIN]
    for name in sorted(doomed, key=lambda name: (order.index(name.kind), name.version)):
        history.files.delete(history.path(name))
    if doomed:
        _log.info("%d files of %s that no kept version needs were removed", len(doomed), history.store.directory)
    return len(doomed)
