"""The latest events in memory: what of them is known from which place on, and their bounds."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from milepost_server.journal import EventsGone, LatestEvents, Place
from milepost_server.journal import events as module
from milepost_server.memory.state import State
from milepost_server.model.records import Store, store_key
from milepost_server.rules.events import LAST, Event


def clear(events: LatestEvents, store: str, *revisions: int) -> None:
    """Commit changes that clear a store."""
    for revision in revisions:
        changes = {store_key(store): Store(store, cleared=revision)}
        events.commit(State(), iter([(revision, changes)]), revision)


def known(events: LatestEvents, store: str, after: Place | None) -> list[int]:
    """The revisions of the events after a place."""
    with events.watch(store, after) as watch:
        return [event.revision for event in watch.take(1000)]


def test_a_watch_gets_what_comes_after_its_place_and_nothing_of_other_stores() -> None:
    events = LatestEvents(10)
    clear(events, "s", 11)
    clear(events, "t", 12)
    clear(events, "s", 13)
    assert known(events, "s", Place(10)) == [11, 13]
    assert known(events, "s", Place(11)) == [13]
    assert known(events, "s", None) == []
    assert known(events, "absent", Place(10)) == []
    with events.watch("s", None) as watch:
        assert (watch.place, watch.take(9)) == (Place(13), [])
        clear(events, "t", 14)
        assert not watch.news.is_set()
        clear(events, "s", 15)
        assert watch.news.is_set()
        assert [event.revision for event in watch.take(9)] == [15]


@pytest.mark.parametrize("after", [Place(9), Place(9, 3), Place(12)])
def test_places_before_the_beginning_and_behind_the_end_are_not_known(after: Place) -> None:
    events = LatestEvents(10)
    clear(events, "s", 11)
    for store in ("s", "absent"):
        with pytest.raises(EventsGone), events.watch(store, after):
            pass


def test_the_oldest_event_goes_and_stores_that_were_quiet_lose_no_place() -> None:
    events = LatestEvents(0, most_events=3)
    clear(events, "quiet", 1)
    with events.watch("quiet", None) as slow, events.watch("busy", None) as behind:
        clear(events, "busy", *range(2, 8))
        assert known(events, "busy", Place(4)) == [5, 6, 7]
        assert known(events, "quiet", Place(1)) == []
        for store, after in (("busy", Place(3)), ("quiet", Place(0))):
            with pytest.raises(EventsGone), events.watch(store, after):
                pass
        assert slow.take(9) == []
        assert slow.place == Place(7)
        with pytest.raises(EventsGone):
            behind.take(9)


def test_the_bytes_of_all_events_are_bounded() -> None:
    size = len(b'{"revision":1}')
    events = LatestEvents(0, most_bytes=3 * size)
    clear(events, "s", *range(1, 10))
    assert known(events, "s", Place(6)) == [7, 8, 9]
    with pytest.raises(EventsGone), events.watch("s", Place(5)):
        pass


def test_stores_that_are_not_watched_are_forgotten_and_watched_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNWATCHED_STORES", 3)
    events = LatestEvents(0)
    with events.watch("watched", None) as watch:
        for number in range(1, 20):
            clear(events, f"s{number}", number)
        clear(events, "watched", 20)
        assert [event.revision for event in watch.take(9)] == [20]
        assert known(events, "s19", Place(18)) == [19]
        with pytest.raises(EventsGone), events.watch("s1", Place(0)):
            pass
        assert known(events, "s1", Place(16)) == []
    assert known(events, "watched", Place(0)) == [20]


def test_a_break_lets_every_watch_begin_anew() -> None:
    events = LatestEvents(0)
    clear(events, "s", 1, 2)
    with events.watch("s", None) as watch:
        events.break_off(2)
        assert watch.news.is_set()
        with pytest.raises(EventsGone):
            watch.take(9)
    clear(events, "s", 3)
    assert known(events, "s", Place(2)) == [3]
    with pytest.raises(EventsGone), events.watch("s", Place(1)):
        pass


def test_a_revision_that_goes_back_breaks_the_events_off() -> None:
    events = LatestEvents(0)
    clear(events, "s", 5)
    events.move(6)
    assert known(events, "s", Place(4)) == [5]
    events.move(3)
    for place in (Place(4), Place(2)):
        with pytest.raises(EventsGone), events.watch("s", place):
            pass
    assert known(events, "s", Place(3)) == []


def test_a_place_inside_of_a_revision() -> None:
    events = LatestEvents(0)
    events.revision = 7
    for index in (0, 1, LAST):
        events._add("s", Event(7, index, "snapshot-taken", b"{}"))
    with ExitStack() as opened:
        watches = {after: opened.enter_context(events.watch("s", Place(7, after))) for after in (0, 1, LAST)}
        assert {after: [each.index for each in watch.take(9)] for after, watch in watches.items()} == {
            0: [1, LAST],
            1: [LAST],
            LAST: [],
        }
    assert [str(Place(7, 1)), str(Place(7))] == ["7.1", "7"]
