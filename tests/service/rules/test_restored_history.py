"""A history that is restored from a backup: bounded, never doubled, and nothing that the service would not write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.model.history import (
    ACTS,
    BATCHES,
    MOST_PAGES,
    HistoryEntry,
    page_of,
)
from milepost_server.model.processes import Process
from milepost_server.model.records import Corrupt, decode, encode, session_key
from milepost_server.model.requests.base import LEADER, NO_BLOB, Attempt
from milepost_server.model.requests.handles import Resign
from milepost_server.model.requests.history import RestoreHistory
from milepost_server.model.requests.sessions import EndSession, OpenSession
from milepost_server.model.requests.trees import PutFile
from milepost_server.rules.job_events import events_after
from milepost_server.rules.restored_history import MOST_BYTES
from tests.service.rules.bench import STORE, retried
from tests.service.rules.history import entries_of, pages_of
from tests.service.rules.test_history import Jobs

SMALLEST_COMMIT = 256 * 1024
"""The bytes of one commit to ConfigMaps, the smallest of all pointer stores."""


class Restored(Jobs):
    """A service that grants epochs above 9, into which a history is restored."""

    def __init__(self) -> None:
        super().__init__("a", "b", "restore")
        self.context = replace(self.context, epoch_floor=9)

    def request(self, *entries: HistoryEntry, session: str = "restore", key: str | None = None) -> RestoreHistory:
        """A request to restore these entries."""
        return RestoreHistory(Attempt(session, key), STORE, "2026-01-01T00:00:00.000Z", "old-name", entries)

    def write(self, batch: int, epoch: int) -> None:
        """Write the commit of a batch as a restore does."""
        self.accepted(PutFile(LEADER, STORE, f"checkpoint/commits/{batch}", epoch, NO_BLOB, b"v1", overwrite=True))


@pytest.fixture
def jobs() -> Restored:
    return Restored()


def entry(kind: str, **members: Any) -> HistoryEntry:
    return HistoryEntry("2025-12-31T00:00:00.000Z", 0, kind, **members)


def batch(number: int, **members: Any) -> HistoryEntry:
    return entry("batch-committed", batch=number, **{"directory": "checkpoint", "epoch": 1, **members})


GRANTED = entry("epoch-granted", epoch=1, session="d", holder="driver")
ENDED = entry("epoch-ended", epoch=1, session="d", how="resigned")


def test_the_entries_come_first_and_what_happens_next_comes_after_them(jobs: Restored) -> None:
    saved = (GRANTED, batch(0), batch(1, input_rows=7), ENDED)
    request = jobs.request(*saved, key="k")
    accepted = jobs.accepted(request)
    assert accepted.answer.body == {"entered": 4}
    assert jobs.accepted(retried(request, 2)).changes == {}, "a repeated request is answered as the first"
    at = jobs.context.revision - 1
    acts, batches = (entries_of(jobs.view, STORE, log) for log in (ACTS, BATCHES))
    assert [(each.revision, each.number, each.restored) for each in (*acts, *batches)] == [
        (at, 0, True),
        (at, 3, True),
        (at, 4, False),
        (at, 1, True),
        (at, 2, True),
    ]
    back = {
        each.number: msgspec.structs.replace(each, revision=0, number=0, restored=False) for each in (*acts, *batches)
    }
    assert tuple(back[number] for number in range(4)) == saved
    said = acts[-1]
    assert (said.kind, said.session, said.holder) == ("history-restored", "restore", "the restore")
    assert (said.since, said.source, said.entries) == ("2026-01-01T00:00:00.000Z", "old-name", 4)
    assert jobs.lead("a") == 10
    jobs.commit_batch(1, 10)
    jobs.commit_batch(2, 10)
    assert jobs.told(ACTS, "kind", "epoch", "how")[2:] == [("history-restored", 0, ""), ("epoch-granted", 10, "")]
    assert jobs.told(BATCHES, "batch", "replay")[2:] == [(1, True), (2, False)], "1 was committed before"


def test_an_epoch_that_had_not_ended_ends_by_the_next_grant(jobs: Restored) -> None:
    jobs.done(jobs.request(GRANTED, ENDED, entry("epoch-granted", epoch=3)))
    jobs.lead("a")
    assert jobs.told(ACTS, "kind", "epoch", "how")[-2:] == [
        ("epoch-ended", 3, "superseded"),
        ("epoch-granted", 10, ""),
    ]


def test_files_that_the_restore_writes_are_no_new_batches(jobs: Restored) -> None:
    jobs.done(jobs.request(GRANTED, batch(0), batch(1), ENDED))
    epoch = jobs.lead("restore")
    jobs.write(1, epoch)
    jobs.write(0, epoch)
    assert jobs.told(BATCHES, "batch") == [(0,), (1,)]
    assert jobs.snapshots().keys() == {0, 1}
    jobs.done(Resign(Attempt("restore"), STORE))
    epoch = jobs.lead("a")
    jobs.write(1, epoch)
    jobs.done(EndSession(Attempt("a")))
    jobs.put(session_key("restore"), None)
    jobs.done(OpenSession(Attempt("restore"), 10.0))
    epoch = jobs.lead("restore")
    jobs.write(2, epoch)
    assert jobs.told(BATCHES, "batch", "replay")[2:] == [(1, True), (2, False)], "it is another session"


def test_a_restore_that_goes_on_is_known_and_enters_no_batches_either(jobs: Restored) -> None:
    """The first one was killed, and its session may still hold the epoch."""
    saved = (GRANTED, batch(0), ENDED)
    jobs.done(jobs.request(*saved))
    jobs.write(0, jobs.lead("restore"))
    assert jobs.done(jobs.request(*saved, session="b")) == {"entered": 0}
    assert (
        jobs.code(replace(jobs.request(*saved, session="b"), saved="2026-01-02T00:00:00.000Z")) is Code.ALREADY_EXISTS
    )
    jobs.done(EndSession(Attempt("restore")))
    jobs.write(0, jobs.lead("b"))
    assert jobs.told(BATCHES, "batch") == [(0,)]
    restored = [entry for entry in entries_of(jobs.view, STORE, ACTS) if entry.kind == "history-restored"]
    assert [(entry.session, entry.entries) for entry in restored] == [("restore", 3), ("b", 0)]
    jobs.done(EndSession(Attempt("b")))
    jobs.write(1, jobs.lead("a"))
    assert jobs.code(jobs.request(*saved, session="a")) is Code.ALREADY_EXISTS, "the job has gone on"


def test_a_history_is_restored_only_where_there_is_none(jobs: Restored) -> None:
    before = jobs.request(GRANTED)
    jobs.lead("a")
    assert jobs.code(before) is Code.ALREADY_EXISTS
    for log in (ACTS, BATCHES):
        damaged = Restored()
        damaged.put(f"stores/{STORE}/history/{log}-4", Corrupt(f"{log}-4", "damaged"))
        assert damaged.code(before) is Code.ALREADY_EXISTS
    led = Restored()
    led.lead("a")
    led.put(f"stores/{STORE}/history/{ACTS}-1", None)  # as a release without histories grants it
    refused = led.refused(before)
    assert (refused.code, refused.extras) == (Code.HELD, {"holder": "the a", "epoch": 10})


@pytest.mark.parametrize(
    "entries",
    [
        (entry("unheard-of"),),
        (entry("epoch-granted", epoch=10),),
        (batch(0, epoch=10),),
        (batch(0, begun_under=10),),
        (entry("epoch-granted"),),
        (GRANTED, GRANTED),
        (entry("epoch-granted", epoch=2), GRANTED),
        (ENDED, ENDED),
        (ENDED, GRANTED),
        (entry("epoch-granted", epoch=2), ENDED),
        (entry("epoch-ended", epoch=1, how="vanished"),),
        (entry("epoch-ended", how="resigned"),),
        (entry("batch-committed", directory="checkpoint"),),
        (entry("batch-committed", batch=1),),
    ],
)
def test_what_the_service_would_never_have_entered_is_refused(
    jobs: Restored, entries: tuple[HistoryEntry, ...]
) -> None:
    assert jobs.code(jobs.request(*entries)) is Code.INVALID_REQUEST
    assert jobs.view.history_pages(STORE, ACTS) == []


def test_a_job_that_was_dropped_and_begun_anew_replays_nothing(jobs: Restored) -> None:
    jobs.done(jobs.request(GRANTED, batch(7), entry("dropped", epoch=1), batch(0, directory="other")))
    jobs.lead("a")
    jobs.commit_batch(0, 10)
    jobs.commit_batch(0, 10, "other")
    batches = entries_of(jobs.view, STORE, BATCHES)[2:]
    assert [(each.directory, each.replay) for each in batches] == [("checkpoint", False), ("other", True)]


@pytest.mark.parametrize("long", [False, True])
def test_a_restored_history_is_bounded_and_fits_into_one_commit(jobs: Restored, long: bool) -> None:
    process = Process("ä" * 255, 1, "ä" * 200, "http://" + "ä" * 493) if long else None
    asks = entry("stop-requested", holder="ä" * 200 if long else "anna", process=process)
    directory = "ä" * 500 if long else "checkpoint"
    saved = [each for number in range(490) for each in (asks, batch(number, directory=directory))]
    accepted = jobs.accepted(jobs.request(GRANTED, *saved))
    encoded = {key: encode(key, page) for key, page in accepted.changes.items() if page and page_of(key)}
    assert sum(len(page) for page in encoded.values()) < MOST_BYTES + 16 * 1024 < SMALLEST_COMMIT
    for log in (ACTS, BATCHES):
        assert len(pages_of(jobs.view, STORE, log)) <= MOST_PAGES[log]
    assert accepted.answer.body["entered"] == sum(len(entries_of(jobs.view, STORE, log)) for log in (ACTS, BATCHES)) - 1
    assert entries_of(jobs.view, STORE, ACTS)[-1].entries == accepted.answer.body["entered"]
    assert entries_of(jobs.view, STORE, BATCHES)[-1].batch == 489, "the newest are kept"
    for key, page in encoded.items():
        assert decode(key, page) == jobs.view.get(key)


def test_events_go_on_in_the_middle_of_a_restored_history(jobs: Restored) -> None:
    """All of its pages are of one commit."""
    jobs.done(jobs.request(*(batch(number) for number in range(100))))
    place, seen = (jobs.context.revision - 1, 0), []
    while found := events_after(jobs.state, STORE, place, 0, 7):
        seen += [msgspec.json.decode(each.data) for each in found]
        place = (found[-1].revision, found[-1].index)
    assert [each.get("batch") for each in seen] == [*range(100), None]
    assert {each["restored"] for each in seen[:-1]} == {True}
    assert all("snapshot" not in each for each in seen)
    assert seen[-1].items() >= {"kind": "history-restored", "entries": 100}.items()
