"""Decide which head a take-over goes on from: the stored one, if the witness confirms it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace

from milepost_backends.contract import Head, JournalDamaged
from milepost_backends.embedded.heads import described
from milepost_backends.embedded.witness import DAMAGED, Testimony

log = logging.getLogger("milepost.embedded")

_WHAT_TO_DO = "Restore all files of the directory; after restoring a backup, start with --epochs-above"


@dataclass(frozen=True, slots=True)
class StoredHead:
    """This is what is stored of a journal: its head, or what is wrong with it, and whether there are records.

    ``trouble`` is for people, ``sign`` for the evidence of a loss (see `InvalidHead`); None if the head is valid.
    """

    head: Head | None
    trouble: str | None
    sign: str | None
    records: bool


def last_head(
    journal: str, found: StoredHead, witness: Testimony, ours: Head | None, accepted: Collection[str]
) -> Head | None:
    """Return the head that the next one follows; None for a journal that is founded now.

    ``ours`` is the head that this process committed last, under a lease that still holds. Raises `JournalDamaged`.
    """
    if ours is not None and may_follow(ours, witness):
        return _ours_or_newer(found, ours)
    what = damage(journal, found, witness)
    if what is None:
        if found.head is not None and witness.trouble is not None:
            log.error("the witness of journal %r %s: it is written anew from the database", journal, witness.trouble)
        return found.head
    evidence = f"{journal} {found.sign} {described(found.head)} {described(witness.head)} {found.records}"
    error = JournalDamaged(f"{what}. {_WHAT_TO_DO}", evidence)
    if error.loss not in accepted:
        raise error
    log.error("%s: accepted as the loss %s, so the take-over goes on", what, error.loss)
    base = found.head or witness.head or Head(journal, 0, 0, "")
    newest = witness.head or base
    return replace(base, term=max(base.term, newest.term), revision=max(base.revision, newest.revision))


def may_follow(ours: Head, witness: Testimony) -> bool:
    """Return whether a process that committed ``ours``, and holds the lease, may go on from it."""
    return witness.head is None or witness.head.term <= ours.term


def damage(journal: str, found: StoredHead, witness: Testimony) -> str | None:
    """Say in words what is wrong with the stored journal, or return None.

    A database that is newer than its witness is not damaged: the witness is not synced at each commit.
    """
    head, newest = found.head, witness.head
    if found.trouble is not None:
        return found.trouble
    if head is None:
        if newest is not None:
            return f"journal {journal!r} is gone, though {_named(newest)} was committed"
        if witness.trouble == DAMAGED:
            return f"journal {journal!r} is gone, and the witness, which shows that a journal existed, is damaged"
        return f"the head of journal {journal!r} is gone, but its records are there" if found.records else None
    if newest is None:
        return None
    if (head.term, head.revision) < (newest.term, newest.revision):
        return (
            f"the database is older than its witness: of journal {journal!r} it has {_named(head)}, but"
            f" {_named(newest)} was committed, so revisions {head.revision + 1} to {newest.revision} are lost"
        )
    same_place = (head.term, head.revision) == (newest.term, newest.revision)
    if (head.term == newest.term and head.lineage != newest.lineage) or (same_place and head.digest != newest.digest):
        return (
            f"the database is not the one that its witness knows: the last head of journal {journal!r} is"
            f" {described(head)}, not {described(newest)} (term/revision/lineage)"
        )
    return None


def _ours_or_newer(found: StoredHead, ours: Head) -> Head:
    stored = found.head
    if stored is not None and (stored.term, stored.revision) >= (ours.term, ours.revision):
        return stored
    log.error(
        "the stored head of journal %r is %s, but this replica committed %s last: it is written anew from memory",
        ours.journal,
        found.trouble or described(stored),
        described(ours),
    )
    return ours


def _named(head: Head) -> str:
    return f"revision {head.revision} of term {head.term}"
