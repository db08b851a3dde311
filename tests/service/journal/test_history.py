"""The latest events in memory: what of them is known from which place on, and their bounds."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from milepost_server.journal import EventHistory, EventsGone, Place
from milepost_server.journal import history as module
from milepost_server.memory.state import State
from milepost_server.model.records import Store, store_key
from milepost_server.rules.events import LAST, Event


def clear(history: EventHistory, store: str, *revisions: int) -> None:
    """Commit changes that clear a store."""
    for revision in revisions:
        changes = {store_key(store): Store(store, cleared=revision)}
        history.commit(State(), iter([(revision, changes)]), revision)


def known(history: EventHistory, store: str, after: Place | None) -> list[int]:
    """The revisions of the events after a place."""
    with history.watch(store, after) as watch:
        return [event.revision for event in watch.take(1000)]


def test_a_watch_gets_what_comes_after_its_place_and_nothing_of_other_stores() -> None:
    history = EventHistory(10)
    clear(history, "s", 11)
    clear(history, "t", 12)
    clear(history, "s", 13)
    assert known(history, "s", Place(10)) == [11, 13]
    assert known(history, "s", Place(11)) == [13]
    assert known(history, "s", None) == []
    assert known(history, "absent", Place(10)) == []
    with history.watch("s", None) as watch:
        assert (watch.place, watch.take(9)) == (Place(13), [])
        clear(history, "t", 14)
        assert not watch.news.is_set()
        clear(history, "s", 15)
        assert watch.news.is_set()
        assert [event.revision for event in watch.take(9)] == [15]


@pytest.mark.parametrize("after", [Place(9), Place(9, 3), Place(12)])
def test_places_before_the_beginning_and_behind_the_end_are_not_known(after: Place) -> None:
    history = EventHistory(10)
    clear(history, "s", 11)
    for store in ("s", "absent"):
        with pytest.raises(EventsGone), history.watch(store, after):
            pass


def test_the_oldest_event_goes_and_stores_that_were_quiet_lose_no_place() -> None:
    history = EventHistory(0, most_events=3)
    clear(history, "quiet", 1)
    with history.watch("quiet", None) as slow, history.watch("busy", None) as behind:
        clear(history, "busy", *range(2, 8))
        assert known(history, "busy", Place(4)) == [5, 6, 7]
        assert known(history, "quiet", Place(1)) == []
        for store, after in (("busy", Place(3)), ("quiet", Place(0))):
            with pytest.raises(EventsGone), history.watch(store, after):
                pass
        assert slow.take(9) == []
        assert slow.place == Place(7)
        with pytest.raises(EventsGone):
            behind.take(9)


def test_the_bytes_of_all_events_are_bounded() -> None:
    size = len(b'{"revision":1}')
    history = EventHistory(0, most_bytes=3 * size)
    clear(history, "s", *range(1, 10))
    assert known(history, "s", Place(6)) == [7, 8, 9]
    with pytest.raises(EventsGone), history.watch("s", Place(5)):
        pass


def test_stores_that_are_not_watched_are_forgotten_and_watched_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNWATCHED_STORES", 3)
    history = EventHistory(0)
    with history.watch("watched", None) as watch:
        for number in range(1, 20):
            clear(history, f"s{number}", number)
        clear(history, "watched", 20)
        assert [event.revision for event in watch.take(9)] == [20]
        assert known(history, "s19", Place(18)) == [19]
        with pytest.raises(EventsGone), history.watch("s1", Place(0)):
            pass
        assert known(history, "s1", Place(16)) == []
    assert known(history, "watched", Place(0)) == [20]


def test_a_broken_history_begins_anew_for_everyone() -> None:
    history = EventHistory(0)
    clear(history, "s", 1, 2)
    with history.watch("s", None) as watch:
        history.break_off(2)
        assert watch.news.is_set()
        with pytest.raises(EventsGone):
            watch.take(9)
    clear(history, "s", 3)
    assert known(history, "s", Place(2)) == [3]
    with pytest.raises(EventsGone), history.watch("s", Place(1)):
        pass


def test_a_revision_that_goes_back_breaks_the_history() -> None:
    history = EventHistory(0)
    clear(history, "s", 5)
    history.move(6)
    assert known(history, "s", Place(4)) == [5]
    history.move(3)
    for place in (Place(4), Place(2)):
        with pytest.raises(EventsGone), history.watch("s", place):
            pass
    assert known(history, "s", Place(3)) == []


def test_a_place_inside_of_a_revision() -> None:
    history = EventHistory(0)
    history.revision = 7
    for index in (0, 1, LAST):
        history._add("s", Event(7, index, "snapshot-taken", b"{}"))
    with ExitStack() as opened:
        watches = {after: opened.enter_context(history.watch("s", Place(7, after))) for after in (0, 1, LAST)}
        assert {after: [each.index for each in watch.take(9)] for after, watch in watches.items()} == {
            0: [1, LAST],
            1: [LAST],
            LAST: [],
        }
    assert [str(Place(7, 1)), str(Place(7))] == ["7.1", "7"]
