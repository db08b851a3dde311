"""Return the events of a job: the entries of its stored history after a place, in the order of their commits.

The history is stored with the other records, so a leader knows the events of all leaders before it. A place is too old
only once a page after it was dropped, or cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from milepost_server.memory.state import State
from milepost_server.model.history import ACTS, BATCH_COMMITTED, BATCHES, HistoryEntry, HistoryPage, page_key
from milepost_server.rules.events import LAST, Event


class EventsDropped(Exception):
    """Raised if the history may have had entries after a place that are not kept any more, or cannot be read."""


def events_after(state: State, job: str, place: tuple[int, int], known_from: int, most: int) -> list[Event]:
    """Return the first events of a job after ``place``, at most ``most`` of them.

    ``known_from`` is the revision at which the records in ``state`` were loaded. A page that cannot be read has only
    entries up to that revision, since no entry is added to it. Raises `EventsDropped`.
    """
    entries = [entry for log in (ACTS, BATCHES) for entry in _entries_from(state, job, log, place, known_from)]
    entries.sort(key=lambda entry: (entry.revision, entry.number))
    placed = zip(placed_of(entries), entries, strict=True)
    later = [(at, entry) for at, entry in placed if at > place][:most]
    return [Event(*at, entry.kind, msgspec.json.encode(body_of(entry, at))) for at, entry in later]


def placed_of(entries: Sequence[HistoryEntry]) -> list[tuple[int, int]]:
    """Return the place of each of these consecutive entries, the oldest first, among the events of the job: its
    revision, and its number in the commit, or `LAST` for the last entry of the commit. The newest entry is the last of
    its commit.
    """
    return [
        (entry.revision, entry.number if following is not None and following.revision == entry.revision else LAST)
        for entry, following in zip_longest(entries, entries[1:])
    ]


def body_of(entry: HistoryEntry, place: tuple[int, int]) -> dict[str, Any]:
    """Return an entry as JSON: its members that are set, and as ``id`` its place among the events of the job."""
    found: dict[str, Any] = msgspec.to_builtins(entry)
    del found["revision"]
    found.pop("number", None)
    if entry.kind == BATCH_COMMITTED and not entry.restored:
        found["snapshot"] = entry.revision
    revision, index = place
    id_ = str(revision) if index == LAST else f"{revision}.{index}"
    return {"kind": entry.kind, "at": entry.at, "revision": entry.revision, "id": id_, **found}


def _entries_from(state: State, job: str, log: str, place: tuple[int, int], known_from: int) -> list[HistoryEntry]:
    """Return the entries of a log after ``place``, and perhaps some earlier ones, the oldest first. One commit may have
    entries on many pages. Raises `EventsDropped`.
    """
    pages: list[HistoryPage] = []
    following: int | None = None
    for number in reversed(state.history_pages(job, log)):
        page = state.get(page_key(job, log, number))
        if not isinstance(page, HistoryPage) or following not in (None, number + 1):
            if place[0] < known_from:
                raise EventsDropped(f"a page of {log} in the history of {job!r} is missing or cannot be read")
            break
        pages.append(page)
        if (page.entries[0].revision, page.entries[0].number) <= place:
            break
        following = number
    else:
        if following not in (None, 1):
            raise EventsDropped(f"the history of {job!r} keeps no older {log}")
    return [entry for page in reversed(pages) for entry in page.entries]
