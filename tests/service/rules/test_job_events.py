"""The events of a job as its stored history has them: what comes after a place, and which places are too old."""

from __future__ import annotations

import json

import pytest

from milepost_server.memory.state import State
from milepost_server.model.history import (
    ACTS,
    BATCHES,
    EPOCH_ENDED,
    EPOCH_GRANTED,
    SUPERSEDED,
    HistoryEntry,
    HistoryPage,
    page_key,
)
from milepost_server.model.records import Corrupt
from milepost_server.rules.events import LAST
from milepost_server.rules.job_events import EventsDropped, events_after

TIME = "2026-01-01T12:00:00.000Z"
JOB = "flights"
ALL = 1000


def page(log: str, number: int, *entries: HistoryEntry) -> tuple[str, HistoryPage]:
    return page_key(JOB, log, number), HistoryPage(f"{log}-{number}", entries)


def batches(*revisions: int) -> list[HistoryEntry]:
    return [HistoryEntry(TIME, revision, epoch=1, batch=revision, directory="q") for revision in revisions]


def granted(revision: int, epoch: int, number: int = 0) -> HistoryEntry:
    return HistoryEntry(TIME, revision, EPOCH_GRANTED, number, epoch=epoch, session="a")


@pytest.fixture
def state() -> State:
    """A job whose second epoch was granted in the commit that also entered the end of the first."""
    found = State()
    superseded = HistoryEntry(TIME, 20, EPOCH_ENDED, epoch=1, how=SUPERSEDED)
    found.apply(
        [
            page(ACTS, 1, granted(10, 1), superseded, granted(20, 2, number=1)),
            page(BATCHES, 1, *batches(11, 12)),
            page(BATCHES, 2, *batches(13, 21)),
        ]
    )
    return found


def test_events_of_both_logs_come_in_one_order_and_after_any_of_their_places(state: State) -> None:
    events = events_after(state, JOB, (0, LAST), 0, ALL)
    shown = [(event.type, *event.place) for event in events]
    assert shown == [
        ("epoch-granted", 10, LAST),
        ("batch-committed", 11, LAST),
        ("batch-committed", 12, LAST),
        ("batch-committed", 13, LAST),
        ("epoch-ended", 20, 0),
        ("epoch-granted", 20, LAST),
        ("batch-committed", 21, LAST),
    ]
    for number, event in enumerate(events):
        assert events_after(state, JOB, event.place, 0, ALL) == events[number + 1 :]
        assert events_after(state, JOB, event.place, 0, 2) == events[number + 1 : number + 3]
    bodies = [json.loads(event.data) for event in events]
    assert [body["id"] for body in bodies] == ["10", "11", "12", "13", "20.0", "20", "21"]
    assert bodies[4] == {
        "kind": "epoch-ended",
        "at": TIME,
        "revision": 20,
        "id": "20.0",
        "epoch": 1,
        "how": "superseded",
    }
    assert events_after(State(), JOB, (0, LAST), 0, ALL) == []


@pytest.mark.parametrize("gone", [None, Corrupt("batches-1", "not JSON")], ids=["dropped", "damaged"])
def test_a_place_is_too_old_where_a_page_after_it_is_gone(state: State, gone: Corrupt | None) -> None:
    state.apply([(page_key(JOB, BATCHES, 1), gone)])
    for place in ((0, LAST), (11, LAST), (12, LAST)):
        with pytest.raises(EventsDropped):
            events_after(state, JOB, place, 30, ALL)
    assert [event.revision for event in events_after(state, JOB, (13, LAST), 30, ALL)] == [20, 20, 21]


def test_a_page_missing_between_others_makes_places_before_it_too_old(state: State) -> None:
    state.apply([page(BATCHES, 3, *batches(22)), page(BATCHES, 4, *batches(23)), (page_key(JOB, BATCHES, 3), None)])
    with pytest.raises(EventsDropped):
        events_after(state, JOB, (21, LAST), 30, ALL)
    assert [event.revision for event in events_after(state, JOB, (23, LAST), 30, ALL)] == []


def test_a_newest_page_that_cannot_be_read_hides_only_what_was_committed_before_it_was_loaded(state: State) -> None:
    state.apply([(page_key(JOB, BATCHES, 2), Corrupt("batches-2", "not JSON"))])
    with pytest.raises(EventsDropped):
        events_after(state, JOB, (29, LAST), 30, ALL)
    assert events_after(state, JOB, (30, LAST), 30, ALL) == []
    state.apply([page(BATCHES, 3, *batches(31))])
    assert [event.revision for event in events_after(state, JOB, (30, LAST), 30, ALL)] == [31]
