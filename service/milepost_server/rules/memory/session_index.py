"""Index the sessions that a listing shows, and the epochs that each holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sortedcontainers import SortedList

from milepost_server.rules.records import Corrupt, Record, Session, Store

_Life = tuple[str, int]
"""A session's id and the revision at which it was created: an id may be used again long after its session ended."""


class SessionIndex:
    """The sessions that live or cannot be read, sorted by id, and for each life of a session the stores that it leads.

    Updating this does not cost more with more sessions or stores.
    """

    def __init__(self) -> None:
        self._listed: SortedList[str] = SortedList()
        self._led: dict[_Life, SortedList[str]] = {}

    def session_changed(self, session: str, old: Record | None, new: Record | None) -> None:
        """Note that a session has another record now, or none."""
        was, is_ = _is_listed(old), _is_listed(new)
        if was and not is_:
            self._listed.remove(session)
        elif is_ and not was:
            self._listed.add(session)

    def store_changed(self, store: str, old: Record | None, new: Record | None) -> None:
        """Note that a store's own record is another one now, which may name another session as its epoch's."""
        was, is_ = _leader(old), _leader(new)
        if was == is_:
            return
        if was is not None:
            stores = self._led[was]
            stores.remove(store)
            if not stores:
                del self._led[was]
        if is_ is not None:
            self._led.setdefault(is_, SortedList()).add(store)

    def listed(self, after: str) -> Iterator[str]:
        """Yield the ids of the sessions that live or cannot be read, sorted, from the one after ``after`` on."""
        return iter(self._listed.irange(after, inclusive=(False, True)))

    def led_by(self, session: Session, most: int) -> list[str]:
        """Return the names of the stores whose epoch the session holds, sorted, ``most`` of them at most."""
        return list(islice(self._led.get((session.id, session.created_revision), ()), most))


def _is_listed(record: Record | None) -> bool:
    """Return whether a listing shows this record. One of an ended session is there only to be told from none."""
    return isinstance(record, Corrupt) or (isinstance(record, Session) and not record.ended)


def _leader(record: Record | None) -> _Life | None:
    if not isinstance(record, Store) or record.epoch_session is None:
        return None
    return record.epoch_session, record.epoch_session_created
