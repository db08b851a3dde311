"""The operation that shows the history of a job, page by page, the newest entry first."""

from __future__ import annotations

from heapq import merge
from typing import Any

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal import Journal
from milepost_server.memory.state import State
from milepost_server.model.history import ACTS, BATCHES, HistoryEntry, HistoryPage, page_key
from milepost_server.model.records import Corrupt
from milepost_server.operations.handles import check_is_here
from milepost_server.replica.submitter import Reply
from milepost_server.rules.decisions import Answer
from milepost_server.rules.job_events import body_of, placed_of

_Position = tuple[int, int]
"""What identifies an entry, and orders entries: the revision of its commit, and its number in that commit."""


class HistoryOperations:
    """The operation that shows the history of a job. A history is bounded, so that one turn of the event loop looks it
    through.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def page(self, job: str, after: str, limit: int) -> Reply:
        """Return at most ``limit`` entries of the history of the job that has the store ``job``, the newest first.

        ``after`` is the position of the last entry on the page before, empty for the first page. ``next`` in the answer
        is this position for the next page, None on the last one. ``corrupt`` names the stored pages that cannot be
        read, whose entries are missing.

        Raises problems: ``not-exist`` if there is no such store, ``invalid-request`` for a position that this operation
        did not return, ``no-leader``.
        """
        before = None if not after else _position_of(after)
        reading = self._journal.read()
        state = reading.view.state
        if not state.has_store(job):
            raise problem(Code.NOT_EXIST, f"there is no job {job!r}")
        check_is_here(state, job)
        entries: list[dict[str, Any]] = []
        corrupt: list[dict[str, str]] = []
        last: _Position | None = None
        following = None
        logs = [_entries(state, job, log, corrupt) for log in (ACTS, BATCHES)]
        merged = [*merge(*logs, key=_position, reverse=True)]
        for entry, place in zip(merged, reversed(placed_of(merged[::-1])), strict=True):
            if before is not None and _position(entry) >= before:
                continue
            if len(entries) == limit:
                following = last
                break
            last = _position(entry)
            entries.append(body_of(entry, place))
        token = None if following is None else f"{following[0]}.{following[1]}"
        body = {"job": job, "entries": entries, "corrupt": corrupt, "next": token}
        return Reply(Answer(body), reading.revision, reading.term)


def _entries(state: State, store: str, log: str, corrupt: list[dict[str, str]]) -> list[HistoryEntry]:
    """Return the entries of a log, the newest first, and add the pages that cannot be read to ``corrupt``."""
    entries: list[HistoryEntry] = []
    for number in reversed(state.history_pages(store, log)):
        page = state.get(page_key(store, log, number))
        if isinstance(page, HistoryPage):
            entries += reversed(page.entries)
        elif isinstance(page, Corrupt):
            corrupt.append({"name": page.name, "reason": page.reason})
    return entries


def _position(entry: HistoryEntry) -> _Position:
    return entry.revision, entry.number


def _position_of(text: str) -> _Position:
    revision, _, number = text.partition(".")
    if not all(each.isascii() and each.isdigit() and len(each) <= 19 for each in (revision, number)):
        raise problem(Code.INVALID_REQUEST, "the token of the page is not one that this service returned")
    return int(revision), int(number)
