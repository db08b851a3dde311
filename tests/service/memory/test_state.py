"""The indexes over committed records: each says what going through all records would, whatever was changed in what
order, and a snapshot shows what was there when it was taken.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost_server.memory.lookup import is_listed, is_pending
from milepost_server.memory.snapshots import Snapshot
from milepost_server.memory.state import State
from milepost_server.model.answered import Answered
from milepost_server.model.records import (
    Corrupt,
    Handle,
    Lock,
    Record,
    Session,
    Store,
    Upload,
    handle_key,
    handle_of,
    session_key,
    store_key,
    store_of,
    upload_key,
)
from milepost_server.rules.locks import holders

pytestmark = pytest.mark.later

STORES, NAMES, SESSIONS = ("a", "a-b", "b"), ("m", "m.n", "o", "p"), ("s", "t")
REVISIONS = st.integers(1, 9)
LOCKS = st.lists(st.builds(Lock, st.sampled_from(SESSIONS), REVISIONS, REVISIONS), max_size=3).map(tuple)
BLOBS = st.sampled_from(["x", "y", "z"])
ANSWERED = st.builds(Answered, st.sampled_from(SESSIONS), st.just("k"), st.just(""), REVISIONS, st.just({}))

Changed = list[tuple[str, Record | None]]


def handles(store: str, name: str) -> st.SearchStrategy[tuple[str, Record | None]]:
    """What may come under a handle's key."""
    there = st.builds(
        Handle,
        name=st.just(name),
        version=st.just("v"),
        blob=BLOBS,
        size=st.just(1),
        sha256=st.just(""),
        created=st.just(""),
        updated=st.just(""),
        created_revision=REVISIONS,
        changed=REVISIONS,
        locks=LOCKS,
        removing=st.booleans(),
        gone=st.booleans(),
        answered=st.lists(ANSWERED, max_size=1).map(tuple),
    )
    record = st.one_of(there, there, st.just(Corrupt(name, "damaged")), st.none())
    return st.tuples(st.just(handle_key(store, name)), record)


def stores(store: str) -> st.SearchStrategy[tuple[str, Record | None]]:
    """What may come under a store's own key."""
    there = st.builds(
        Store,
        name=st.just(store),
        cleared=st.integers(0, 9),
        locked=LOCKS,
        epoch_session=st.sampled_from([*SESSIONS, None]),
        epoch_session_created=st.integers(1, 2),
    )
    return st.tuples(st.just(store_key(store)), st.one_of(there, there, st.just(Corrupt(store, "damaged")), st.none()))


def sessions(session: str) -> st.SearchStrategy[tuple[str, Record | None]]:
    """What may come under a session's key."""
    there = st.builds(
        Session, id=st.just(session), ttl=st.just(1.0), created_revision=REVISIONS, ended=st.integers(0, 9)
    )
    damaged = st.just(Corrupt(session, "damaged"))
    return st.tuples(st.just(session_key(session)), st.one_of(there, there, damaged, st.none()))


def uploads(store: str) -> st.SearchStrategy[tuple[str, Record | None]]:
    """What may come under an upload's key."""
    there = st.builds(
        Upload,
        id=st.just("u"),
        blob=BLOBS,
        size=st.just(1),
        sha256=st.just(""),
        session=st.just("s"),
        ttl=st.just(1.0),
        created_revision=REVISIONS,
        ended=st.integers(0, 2),
    )
    return st.tuples(st.just(upload_key(store, "u")), st.one_of(there, st.just(Corrupt("u", "damaged")), st.none()))


def any_change() -> st.SearchStrategy[tuple[str, Record | None]]:
    """One record that becomes another."""
    by_handle = st.tuples(st.sampled_from(STORES), st.sampled_from(NAMES)).flatmap(lambda place: handles(*place))
    others = [st.sampled_from(STORES).flatmap(stores), st.sampled_from(SESSIONS).flatmap(sessions)]
    return st.one_of(by_handle, by_handle, by_handle, *others, st.sampled_from(STORES).flatmap(uploads))


GROUPS = st.lists(st.lists(any_change(), min_size=1, max_size=6), max_size=12)


def compacted(group: Changed) -> Changed:
    """The last record for each key, as groups are written."""
    return list(dict(group).items())


def of(state: State | dict[str, Record], store: str) -> dict[str, Record]:
    """The records of a store's handles, by name."""
    records = state.records if isinstance(state, State) else state
    located = ((handle_of(key), record) for key, record in records.items())
    return {place[1]: record for place, record in located if place is not None and place[0] == store}


def cleared_in(records: dict[str, Record], store: str) -> int:
    record = records.get(store_key(store))
    return record.cleared if isinstance(record, Store) else 0


def listed(records: dict[str, Record], store: str) -> list[str]:
    """The names that a listing tells of, by going through all records."""
    cleared = cleared_in(records, store)
    return sorted(name for name, record in of(records, store).items() if is_listed(record, cleared))


def compare(state: State) -> None:
    """Each index with a plain scan."""
    records = state.records
    for store in STORES:
        found, cleared = of(state, store), cleared_in(records, store)
        names = listed(records, store)
        assert list(state.names(store)) == names
        assert list(state.names(store, "m")) == [name for name in names if name > "m"]
        assert state.count(store) == len(names)
        for other in range(10):
            assert state.count(store, other) == sum(is_listed(record, other) for record in found.values())
        assert set(state.damaged_in(store)) == {name for name, record in found.items() if isinstance(record, Corrupt)}
        away = [
            (record.created_revision, name)
            for name, record in found.items()
            if isinstance(record, Handle) and not record.gone and record.created_revision <= cleared
        ]
        assert list(state.cleared(store, cleared)) == [handle_key(store, name) for _, name in sorted(away)]
        assert not list(state.cleared(store, cleared - 1))
        assert (store in state.stores_with_cleared()) is bool(away)
        pending = sum(is_pending(record) for key, record in records.items() if store_of(key) == store)
        assert state.count_uploads(store) == pending
    for session in SESSIONS:
        own = [
            (place[0], place[1])
            for key, record in records.items()
            if (place := handle_of(key)) and isinstance(record, Handle)
            if session in {lock.session for lock in record.locks}
        ]
        assert list(state.locks.locked_by(session)) == sorted(own)
        may = list(state.locks.may_hold(state.names, session))
        assert may == sorted(set(may))
        assert [place for place in may if holds(state, session, *place)] == held(state, session)
        for place in may:
            assert list(state.locks.may_hold(state.names, session, place)) == [other for other in may if other > place]
        assert state.locks.count_handles(session) == len(own)
        whole = [store for store in STORES if session in {lock.session for lock in locked_in(records, store)}]
        assert state.locks.count_stores(session) == len(whole)
        for created_revision in (1, 2):
            led = [store for store in STORES if leads(records.get(store_key(store)), session, created_revision)]
            assert state.session_index.led_by(Session(session, 1.0, created_revision), 9) == led
            assert state.session_index.led_by(Session(session, 1.0, created_revision), 1) == led[:1]
    there = [session for session in SESSIONS if is_there(records.get(session_key(session)))]
    assert list(state.session_index.listed("")) == there
    assert list(state.session_index.listed("s")) == [session for session in there if session > "s"]
    blobs = [record.blob for record in records.values() if isinstance(record, Handle) or is_pending(record)]
    assert {blob for blob in ("x", "y", "z") if state.names_blob("s", blob)} == set(blobs)
    unreadable = [store_of(key) for key, record in records.items() if isinstance(record, Corrupt)]
    assert {store for store in STORES if state.has_unreadable(store)} == set(unreadable) - {None}
    assert [state.count_unreadable(store) for store in STORES] == [unreadable.count(store) for store in STORES]
    assert set(state.damaged()) == {key for key, record in records.items() if isinstance(record, Corrupt)}
    removing = [key for key, record in records.items() if isinstance(record, Handle) and record.removing]
    assert list(state.removing()) == sorted(removing)
    compare_aged(state)


def locked_in(records: dict[str, Record], store: str) -> tuple[Lock, ...]:
    record = records.get(store_key(store))
    return record.locked if isinstance(record, Store) else ()


def leads(record: Record | None, session: str, created_revision: int) -> bool:
    return isinstance(record, Store) and (record.epoch_session, record.epoch_session_created) == (
        session,
        created_revision,
    )


def is_there(record: Record | None) -> bool:
    return isinstance(record, Corrupt) or (isinstance(record, Session) and not record.ended)


def compare_aged(state: State) -> None:
    """What waits to be dropped."""
    gone: list[tuple[int, str]] = []
    for key, record in state.records.items():
        if isinstance(record, Handle) and record.gone:
            gone.append((record.changed, key))
        elif isinstance(record, Upload) and record.ended:
            gone.append((record.created_revision, key))
    ended = [
        (record.ended, key) for key, record in state.records.items() if isinstance(record, Session) and record.ended
    ]
    for until in (0, 4, 9):
        assert list(state.gone(until)) == sorted(each for each in gone if each[0] <= until)
        assert list(state.ended(until)) == sorted(each for each in ended if each[0] <= until)
    for each in gone:
        assert list(state.gone(9, each)) == sorted(other for other in gone if other > each)


def holds(state: State, session: str, store: str, name: str) -> bool:
    record, handle = state.store(store), state.handle(store, name)
    of_store = record if isinstance(record, Store) else Store(store)
    return isinstance(handle, Handle) and session in holders(state, of_store, handle)


def held(state: State, session: str) -> list[tuple[str, str]]:
    """What the session holds, by going through all records."""
    places = sorted(place for key in state.records if (place := handle_of(key)) is not None)
    return [place for place in places if holds(state, session, *place)]


@settings(max_examples=150, deadline=None)
@given(groups=GROUPS)
def test_indexes_say_what_a_scan_would(groups: list[Changed]) -> None:
    state = State()
    for group in groups:
        state.apply(compacted(group))
        compare(state)
    state.apply([(key, None) for key in list(state.records)])
    compare(state)
    assert not any([state.session_index._listed, state.session_index._led])
    left = (state.locks._handles, state.locks._stores, state._blobs, state._removing, state._gone, state._ended)
    assert not any([*left, state._cleared, state._unreadable, state.answers, state.sessions])


class Seen:
    """A snapshot, and a copy of what was there when it was taken."""

    def __init__(self, state: State) -> None:
        self.snapshot: Snapshot = state.snapshot()
        self.records = dict(state.records)

    def compare(self, keys: Iterable[str]) -> None:
        assert all(self.snapshot.get(key) == self.records.get(key) for key in keys)
        for store in STORES:
            cleared, names = cleared_in(self.records, store), list(self.snapshot.names(store))
            assert names == sorted(set(names))
            found = [name for name in names if is_listed(self.snapshot.handle(store, name), cleared)]
            assert found == listed(self.records, store)
            assert list(self.snapshot.names(store, "m")) == [name for name in names if name > "m"]


@settings(max_examples=150, deadline=None)
@given(groups=GROUPS, looks=st.lists(st.sampled_from(["take", "drop", ""]), min_size=12, max_size=12))
def test_snapshots_show_what_was_there(groups: list[Changed], looks: list[str]) -> None:
    state, seen, keys = State(), [], set[str]()
    for group, look in zip(groups, looks, strict=False):
        if look == "take":
            seen.append(Seen(state))
        elif look == "drop" and seen:
            seen.pop(len(seen) // 2)
        state.apply(compacted(group))
        keys |= {key for key, _ in group}
        for each in seen:
            each.compare(keys)


def test_a_snapshot_that_nobody_holds_keeps_nothing() -> None:
    state = State()
    older, newer = state.snapshot(), state.snapshot()
    assert older is newer
    state.apply([(session_key("s"), Session("s", 1.0, 1))])
    newer = state.snapshot()
    assert newer is not older
    watched = weakref.ref(older), weakref.ref(newer)
    del older, newer
    gc.collect()
    assert [each() for each in watched] == [None, None]
    state.apply([(session_key("s"), None)])
    assert state.snapshot().get(session_key("s")) is None


@pytest.mark.parametrize("record", [Session("s", 1.0, 1), Store("a"), Lock("s", 1, 1), Corrupt("x", "damaged")])
def test_the_garbage_collector_leaves_records_alone(record: object) -> None:
    """It would go through all of them now and then, and nothing else would go on meanwhile."""
    assert not gc.is_tracked(record)


def test_what_somebody_else_keeps_below_the_sessions_is_none() -> None:
    state = State()
    session = Session("s", 1.0, 1)
    state.apply([(session_key("s"), session), ("sessions/notes/s", Corrupt("s", "no kind of record has the key"))])
    assert state.sessions == {"s": session}
    state.apply([("sessions/notes/s", None)])
    assert state.sessions == {"s": session}
