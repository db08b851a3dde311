"""Define the stored history of a job: pages of entries.

An entry never changes, but for the number of rows of a batch, which comes after its commit.

A store has two logs: ``acts`` has the epochs and what people did, ``batches`` has the committed batches, which would
otherwise push the acts out. The pages of a log are numbered from 1; a page that cannot be read leaves the others
usable.
"""

from __future__ import annotations

from typing import Final

import msgspec

from milepost_server.model.answered import STORED_AS, Answered, schema
from milepost_server.model.processes import Process

ACTS: Final = "acts"
BATCHES: Final = "batches"

MOST_PAGES: Final = {ACTS: 12, BATCHES: 32}
"""The most pages of each log of a store. The oldest page is dropped when a page more is begun."""

PAGE_ENTRIES: Final = {ACTS: 32, BATCHES: 16}
PAGE_BYTES: Final = 8 * 1024
"""A page that has this many entries, or this many bytes of them, is full: the next entry begins another page. An entry
of the longest names has 5 KiB, so that no page has more than 13 KiB. Pages of batches are shorter, since each batch
writes one anew.
"""

KEPT_DAYS: Final = 90
"""Pages whose newest entry is older than this are dropped when a page more is begun."""

MOST_QUERIES: Final = 16
"""The most directories of queries for which a log of batches remembers the highest batch."""

EPOCH_GRANTED: Final = "epoch-granted"
EPOCH_ENDED: Final = "epoch-ended"
BATCH_COMMITTED: Final = "batch-committed"
SAVEPOINT_MADE: Final = "savepoint-made"
SAVEPOINT_DROPPED: Final = "savepoint-dropped"
ROLLED_BACK: Final = "rolled-back"
CLONED: Final = "cloned"
DROPPED: Final = "dropped"
STOP_REQUESTED: Final = "stop-requested"
HAND_OVER_REQUESTED: Final = "hand-over-requested"
STARTED: Final = "started"
EXPIRED: Final = "expired"
RESCALED: Final = "rescaled"
MOVED: Final = "moved"
HISTORY_RESTORED: Final = "history-restored"

KINDS: Final = frozenset(
    {
        EPOCH_GRANTED,
        EPOCH_ENDED,
        BATCH_COMMITTED,
        SAVEPOINT_MADE,
        SAVEPOINT_DROPPED,
        ROLLED_BACK,
        CLONED,
        DROPPED,
        STOP_REQUESTED,
        HAND_OVER_REQUESTED,
        STARTED,
        EXPIRED,
        RESCALED,
        MOVED,
        HISTORY_RESTORED,
    }
)
"""All kinds of entries. An entry of another kind is not restored from a backup."""

STATED_KINDS: Final = frozenset({EXPIRED, RESCALED})
"""The acts that only a client knows of, since they are changes of its job record: it states them with the change."""

STATED_MEMBERS: Final = frozenset({"batch", "previous_batch", "partitions", "previous_partitions"})
"""The members, whole numbers, that a client may state of such an act."""

RESIGNED: Final = "resigned"
STOPPED: Final = "stopped"
HANDED_OVER: Final = "handed-over"
SESSION_EXPIRED: Final = "session-expired"
SESSION_ENDED: Final = "session-ended"
SUPERSEDED: Final = "superseded"
"""How an epoch ended. ``stopped`` and ``handed-over``: the driver resigned because a person asked for that.
``superseded``: the next epoch was granted, and no entry says how the last one ended, for example since a release that
kept no history led then.
"""

ENDS: Final = frozenset({RESIGNED, STOPPED, HANDED_OVER, SESSION_EXPIRED, SESSION_ENDED, SUPERSEDED})


class HistoryEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Something that happened to a job, committed at ``revision`` together with its effect; ``at`` is the time of day.

    Entries of one commit have the numbers 0, 1, … as ``number``, so that revision and number identify an entry. Which
    of the other members are set depends on ``kind``. A later release may add members with defaults.

    ``epoch`` is the epoch that was granted or ended, or under which a batch was committed. ``session``, ``holder`` and
    ``process`` describe the session that held the epoch, or that acted. ``since`` is the time at which an ended epoch
    was granted, or a committed batch was begun; ``begun_under`` is the epoch of that, if it is another one. ``how``
    says how an epoch ended. ``by`` is the name of the client that acted; for the end of an epoch, it is set only if
    another client than that of the session ended it.

    ``snapshot`` is the revision of the snapshot that the act is about, that of ``batch`` of the query in ``directory``;
    that of a committed batch is the revision of its entry, and is not stored. ``replay``: a batch with this number, or
    a later one, was committed before. ``previous`` is the revision of the newest snapshot before a roll-back,
    ``previous_batch`` its batch. ``savepoint`` is the name of a savepoint, ``source`` the job and the snapshot that
    were cloned, with ``files`` and ``bytes``; of a move, it is the cell in which the job was until ``epoch``. A dropped
    job has the ``batch`` of its newest snapshot. ``reason`` is why a client asked for the act, as it said. Of expired
    output, ``batch`` is the newest batch that is expired now, and ``previous_batch`` the newest that was before. A
    rescale was committed as ``batch``, and has divided the state among ``partitions`` in place of
    ``previous_partitions``. ``input_rows`` is how many rows a committed batch has read, as its driver said after the
    commit; None if no driver has said it.

    An entry that was ``restored`` from a backup happened in the service that was saved, at the time ``at`` and under
    the epochs of that time. Only its revision and number are of this service, so it names no snapshots. The restore has
    an entry after these: ``entries`` is how many there are, ``source`` the name of the job in the backup, and ``since``
    the time at which that was made. A restore that goes on after an interruption has such an entry without ``entries``.
    """

    at: str
    revision: int
    kind: str = BATCH_COMMITTED
    number: int = 0
    epoch: int = 0
    session: str = ""
    holder: str = ""
    process: Process | None = None
    since: str = ""
    how: str = ""
    by: str = ""
    batch: int | None = None
    directory: str | None = None
    replay: bool = False
    snapshot: int = 0
    previous: int = 0
    previous_batch: int | None = None
    savepoint: str = ""
    source: str = ""
    files: int = 0
    bytes: int = 0
    reason: str = ""
    begun_under: int = 0
    input_rows: int | None = None
    partitions: int = 0
    previous_partitions: int = 0
    restored: bool = False
    entries: int = 0


class Reached(msgspec.Struct, frozen=True, gc=False):
    """The highest batch that the query in ``directory`` has committed."""

    directory: str
    batch: int


class HistoryPage(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """A page of a log of a store's history, the oldest entry first; ``name`` is the last part of its key.

    ``led`` is the epoch that was granted and has not ended, as far as the log of acts knows; 0 if there is none.
    ``reached`` has the highest batches that the log of batches knows, the query of the newest batch last. A new page
    begins with both as the last page had them.
    """

    name: str
    entries: tuple[HistoryEntry, ...] = ()
    led: int = 0
    reached: tuple[Reached, ...] = ()
    schema: int = msgspec.field(default_factory=schema)

    @property
    def answered(self) -> tuple[Answered, ...]:
        """No answers: the record that an act changes keeps the answer to it."""
        return ()

    @property
    def is_full(self) -> bool:
        """Return whether the next entry begins another page."""
        most = PAGE_ENTRIES[self.name.partition("-")[0]]
        return len(self.entries) >= most or len(_ENCODER.encode(self.entries)) >= PAGE_BYTES


_ENCODER: Final = msgspec.json.Encoder()


def page_key(store: str, log: str, number: int) -> str:
    """Return the key of a page of a store's history."""
    return f"{page_keys(store)}{log}-{number}"


def page_keys(store: str) -> str:
    """Return the common prefix of the keys of all pages of a store's history."""
    return f"stores/{store}/history/"


def store_of_page(key: str) -> str:
    """Return the name of the store in the key of a page; empty for another record's key."""
    parts = key.split("/", 3)
    return parts[1] if len(parts) == 4 and parts[0] == "stores" and parts[2] == "history" else ""


def page_of(key: str) -> tuple[str, int] | None:
    """Return the log and the number in the key of a page; None for another record's key."""
    parts = key.split("/")
    if len(parts) != 4 or parts[0] != "stores" or parts[2] != "history":
        return None
    log, _, number = parts[3].partition("-")
    return (log, int(number)) if log in MOST_PAGES and number.isascii() and number.isdigit() else None
