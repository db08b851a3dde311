"""The index over the locks of sessions: on handles, and on stores as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sortedcontainers import SortedList

from milepost_server.model.records import Lock

_LAST = "\U0010ffff"
"""A string that sorts after every name."""


class LockIndex:
    """What each session has locked. The cost of an update does not grow with the number of locks."""

    def __init__(self) -> None:
        self._handles: SortedList[tuple[str, str, str]] = SortedList()
        self._stores: dict[str, SortedList[str]] = {}

    def handle_changed(self, store: str, name: str, was: Iterable[Lock], is_: Iterable[Lock]) -> None:
        """Note the locks in the record of a handle, before and after a change."""
        before, after = {lock.session for lock in was}, {lock.session for lock in is_}
        for session in before - after:
            self._handles.remove((session, store, name))
        for session in after - before:
            self._handles.add((session, store, name))

    def store_changed(self, store: str, was: Iterable[Lock], is_: Iterable[Lock]) -> None:
        """Note the locks in a store's own record, each on the store as a whole, before and after a change."""
        before, after = {lock.session for lock in was}, {lock.session for lock in is_}
        for session in before - after:
            stores = self._stores[session]
            stores.remove(store)
            if not stores:
                del self._stores[session]
        for session in after - before:
            if (locked := self._stores.get(session)) is None:
                locked = self._stores[session] = SortedList()
            locked.add(store)

    def locked_by(self, session: str, after: tuple[str, str] = ("", "")) -> Iterator[tuple[str, str]]:
        """Yield store and name of the handles whose own records have a lock of the session, sorted, beginning after the
        pair ``after``.
        """
        first, last = (session, *after), (session, _LAST, "")
        return ((store, name) for _, store, name in self._handles.irange(first, last, inclusive=(False, True)))

    def may_hold(
        self, names: Callable[[str, str], Iterator[str]], session: str, after: tuple[str, str] = ("", "")
    ) -> Iterator[tuple[str, str]]:
        """Yield store and name of the handles that the session may hold, sorted, beginning after the pair ``after``.

        These are the handles whose records have a lock of the session, and all handles of each store that the session
        locked as a whole. Some of them may have been released since; `milepost_server.rules.locks.holders` decides.
        ``names`` yields the handles in the listing of a store, sorted, beginning after a name.
        """
        whole = self._stores.get(session, SortedList())
        store, name = after
        while True:
            if store in whole:
                yield from ((store, each) for each in names(store, name))
            else:
                for found in self.locked_by(session, (store, name)):
                    if found[0] != store:
                        break
                    yield found
            following = (
                next((found[0] for found in self.locked_by(session, (store, _LAST))), _LAST),
                next(whole.irange(store, inclusive=(False, True)), _LAST),
            )
            store, name = min(following), ""
            if store == _LAST:
                return

    def count_handles(self, session: str) -> int:
        """Return how many handles have a lock of the session in their own records.

        The number may be too high: a lock that was released together with the whole store counts until the handle's
        record is written again.
        """
        first: int = self._handles.bisect_left((session, "", ""))
        behind: int = self._handles.bisect_left((session, _LAST, ""))
        return behind - first

    def count_stores(self, session: str) -> int:
        """Return how many stores the session has locked as a whole."""
        return len(self._stores.get(session, ()))
