"""The history of a job: what each act enters, once, and what is dropped."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from milepost_server.journal.commit.room import GrowthCheck
from milepost_server.memory.view import View
from milepost_server.model.history import (
    ACTS,
    BATCHES,
    EXPIRED,
    MOST_PAGES,
    PAGE_BYTES,
    PAGE_ENTRIES,
    HistoryPage,
    page_key,
    page_of,
)
from milepost_server.model.processes import Process
from milepost_server.model.records import Corrupt, decode, encode, store_key
from milepost_server.model.requests.base import LEADER, NO_BLOB, Attempt, Request
from milepost_server.model.requests.handles import Campaign, ReportRows, Resign, StatedAct
from milepost_server.model.requests.sessions import EndSession, ExpireSession, OpenSession
from milepost_server.model.requests.trees import (
    CloneTree,
    DropSavepoint,
    MakeSavepoint,
    OntoExisting,
    PutFile,
    RenamePath,
    RollBack,
)
from milepost_server.model.trees import TreeSnapshot
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted
from milepost_server.rules.history import MOST_LED
from tests.service.rules.bench import STORE, Bench, add, replacement, retried
from tests.service.rules.history import check, entries_of, pages_of


class Jobs(Bench):
    """A bench with a job on it."""

    def lead(self, session: str, store: str = STORE) -> int:
        """Grant the epoch to a session."""
        return int(self.done(Campaign(Attempt(session, f"lead {store} {self.context.revision}"), store))["epoch"])

    def commit_batch(self, batch: int, epoch: int, directory: str = "checkpoint") -> Accepted:
        """Commit a batch as Spark does: under a temporary name first."""
        temporary, target = f"{directory}/commits/.{batch}.tmp", f"{directory}/commits/{batch}"
        self.accepted(PutFile(LEADER, STORE, temporary, epoch, NO_BLOB, b"v1"))
        return self.accepted(RenamePath(LEADER, STORE, temporary, epoch, target, OntoExisting.REPLACE))

    def told(self, log: str, *members: str, store: str = STORE) -> list[Any]:
        """These members of each entry, the oldest first."""
        check(self.view, self.store(store))
        return [tuple(getattr(entry, each) for each in members) for entry in entries_of(self.view, store, log)]

    def snapshots(self) -> dict[int, int]:
        """The revision of each batch's snapshot."""
        tree = self.view.tree(STORE)
        assert tree is not None
        assert not isinstance(tree, Corrupt)
        return {each.batch: each.revision for each in tree.snapshots}


@pytest.fixture
def jobs() -> Jobs:
    return Jobs("a", "b", "c")


def ends(bench: Bench) -> dict[str, Request]:
    created = bench.session("a").created_revision
    return {
        "resigned": Resign(Attempt("a", "r"), STORE),
        "session-ended": EndSession(Attempt("a", "e")),
        "session-expired": ExpireSession(Attempt("a"), created),
    }


@pytest.mark.parametrize("how", ["resigned", "session-ended", "session-expired"])
def test_an_epoch_is_entered_with_its_holder_and_how_it_ended(jobs: Jobs, how: str) -> None:
    process = Process("spark-1", 4711, "app-7", "http://spark-1:4040")
    jobs.done(OpenSession(Attempt("a"), 10.0, "driver", process=process))
    jobs.lead("a")
    granted = jobs.context.wall
    ended = jobs.accepted(ends(jobs)[how])
    assert len([key for key in ended.changes if page_of(key)]) == 1
    jobs.lead("b")
    held = ("a", "driver", process)
    assert jobs.told(ACTS, "kind", "epoch", "session", "holder", "process", "since", "how") == [
        ("epoch-granted", 1, *held, "", ""),
        ("epoch-ended", 1, *held, granted, how),
        ("epoch-granted", 2, "b", "the b", None, "", ""),
    ]


def test_what_is_answered_again_or_refused_is_not_entered(jobs: Jobs) -> None:
    jobs.lead("a")
    request = Resign(Attempt("a", "k"), STORE)
    jobs.done(request)
    assert jobs.accepted(retried(request, 2)).changes == {}
    assert jobs.lead("b") == 2
    jobs.lead("b")
    jobs.refused(Campaign(Attempt("c"), STORE))
    jobs.commit_batch(0, 2)
    again = RenamePath(LEADER, STORE, "checkpoint/commits/.0.tmp", 2, "checkpoint/commits/0", OntoExisting.REPLACE)
    assert jobs.accepted(again).changes == {}
    assert jobs.told(ACTS, "kind", "epoch") == [("epoch-granted", 1), ("epoch-ended", 1), ("epoch-granted", 2)]
    assert jobs.told(BATCHES, "batch") == [(0,)]


def test_a_batch_is_begun_when_spark_stores_its_offsets(jobs: Jobs) -> None:
    jobs.lead("a")
    jobs.accepted(PutFile(LEADER, STORE, "checkpoint/offsets/7", 1, NO_BLOB, b"v1"))
    begun = jobs.context.wall
    jobs.accepted(PutFile(LEADER, STORE, "checkpoint/offsets/8", 1, NO_BLOB, b"v1"))
    jobs.commit_batch(7, 1)
    jobs.commit_batch(0, 1, directory="")
    assert jobs.told(BATCHES, "batch", "since") == [(7, begun), (0, "")]
    assert begun != jobs.context.wall


def test_a_batch_that_an_epoch_left_is_entered_with_both_epochs(jobs: Jobs) -> None:
    jobs.lead("a")
    for batch in (0, 1):
        jobs.accepted(PutFile(LEADER, STORE, f"checkpoint/offsets/{batch}", 1, NO_BLOB, b"v1"))
    jobs.commit_batch(0, 1)
    jobs.done(EndSession(Attempt("a")))
    jobs.lead("b")
    jobs.commit_batch(1, 2)
    jobs.commit_batch(2, 2)
    assert jobs.told(BATCHES, "batch", "epoch", "begun_under") == [(0, 1, 0), (1, 2, 1), (2, 2, 0)]


@pytest.mark.parametrize(
    ("owner", "name", "by"), [("x", "x", ""), ("x", "root", "root"), ("", "root", ""), ("x", "", "")]
)
def test_who_ended_the_session_of_another_is_named(owner: str, name: str, by: str) -> None:
    jobs = Jobs()
    jobs.done(OpenSession(Attempt("s"), 10.0, "driver", owner))
    jobs.lead("s")
    jobs.done(EndSession(Attempt("s", name=name)))
    assert jobs.told(ACTS, "kind", "by")[-1] == ("epoch-ended", by)


def test_the_end_of_a_session_with_many_epochs_enters_a_few_and_the_next_grant_the_others(jobs: Jobs) -> None:
    stores = [f"job-{number:02}" for number in range(MOST_LED + 1)]
    for store in stores:
        jobs.lead("a", store)
    ended = jobs.accepted(EndSession(Attempt("a")))
    assert len([key for key in ended.changes if page_of(key)]) == MOST_LED
    hows = []
    for store in stores:
        jobs.lead("b", store)
        assert jobs.told(ACTS, "kind", "epoch", store=store)[-1] == ("epoch-granted", 2)
        hows.append(jobs.told(ACTS, "how", store=store)[1])
    assert hows == [("session-ended",)] * MOST_LED + [("superseded",)]


def test_epochs_that_a_release_without_history_granted_are_a_gap(jobs: Jobs) -> None:
    jobs.lead("a")
    without = replace_epoch(jobs, 3, "b")
    jobs.put(store_key(STORE), without)
    jobs.done(Resign(Attempt("b"), STORE))
    jobs.lead("c")
    assert jobs.told(ACTS, "kind", "epoch", "how") == [
        ("epoch-granted", 1, ""),
        ("epoch-ended", 1, "superseded"),
        ("epoch-ended", 3, "resigned"),
        ("epoch-granted", 4, ""),
    ]


def replace_epoch(jobs: Jobs, epoch: int, session: str) -> Any:
    created = jobs.session(session).created_revision
    return msgspec.structs.replace(jobs.store(), epoch=epoch, epoch_session=session, epoch_session_created=created)


def test_batches_are_entered_with_what_was_committed_before(jobs: Jobs) -> None:
    epoch = jobs.lead("a")
    for batch in range(3):
        committed = jobs.commit_batch(batch, epoch)
        assert len([key for key in committed.changes if page_of(key)]) == 1
    jobs.commit_batch(0, epoch, "other")
    jobs.done(RollBack(Attempt("a", "back"), STORE, "", epoch, jobs.snapshots()[0]))
    jobs.done(Resign(Attempt("a"), STORE))
    epoch = jobs.lead("b")
    jobs.commit_batch(1, epoch)
    jobs.commit_batch(3, epoch)
    assert jobs.told(BATCHES, "directory", "batch", "epoch", "replay") == [
        ("checkpoint", 0, 1, False),
        ("checkpoint", 1, 1, False),
        ("checkpoint", 2, 1, False),
        ("other", 0, 1, False),
        ("checkpoint", 1, 2, True),
        ("checkpoint", 3, 2, False),
    ]
    assert [(entry.revision, entry.at) for entry in entries_of(jobs.view, STORE, BATCHES)][-1] == (
        jobs.snapshots()[3],
        jobs.context.wall,
    )


def test_a_renamed_directory_of_batches_is_no_new_batch(jobs: Jobs) -> None:
    epoch = jobs.lead("a")
    jobs.commit_batch(0, epoch)
    jobs.done(RenamePath(LEADER, STORE, "checkpoint", epoch, "moved"))
    assert jobs.told(BATCHES, "directory", "batch") == [("checkpoint", 0)]


def test_what_people_did_is_entered_with_who_did_it(jobs: Jobs) -> None:
    epoch = jobs.lead("a")
    for batch in range(3):
        jobs.commit_batch(batch, epoch)
    at = jobs.snapshots()
    jobs.done(MakeSavepoint(Attempt("", "k", name="ops"), STORE, "kept", at[1]))
    jobs.done(RollBack(Attempt("a"), STORE, "", epoch, at[1]))
    jobs.done(DropSavepoint(Attempt("b"), STORE, "kept"))
    snapshot = TreeSnapshot("checkpoint", 7, 0)
    jobs.lead("a", "copy")
    jobs.done(CloneTree(Attempt("a"), "copy", "", 1, "flights/@42", None, snapshot, 5, 500))
    assert jobs.told(ACTS, "kind", "by", "holder", "savepoint", "batch", "snapshot", "previous", "previous_batch")[
        1:
    ] == [
        ("savepoint-made", "ops", "", "kept", 1, at[1], 0, None),
        ("rolled-back", "", "the a", "", 1, at[1], at[2], 2),
        ("savepoint-dropped", "", "the b", "kept", 1, at[1], 0, None),
    ]
    cloned = jobs.told(ACTS, "kind", "holder", "source", "batch", "files", "bytes", store="copy")[-1]
    assert cloned == ("cloned", "the a", "flights/@42", 7, 5, 500)


def test_an_act_that_only_its_client_knows_is_entered_with_the_change_and_once(jobs: Jobs) -> None:
    epoch = jobs.lead("a")
    version = jobs.done(add("a", "job", epoch=epoch))["version"]
    act = StatedAct(EXPIRED, {"batch": 4, "previous_batch": 1})
    stale = replacement("a", "job", "1.x", "y", "k1", epoch=epoch, act=act)
    jobs.refused(stale)
    expiring = replacement("a", "job", version, "y", "k2", epoch=epoch, act=act)
    assert len([key for key in jobs.accepted(expiring).changes if page_of(key)]) == 1
    assert jobs.accepted(retried(expiring, 2)).changes == {}
    entries = jobs.told(ACTS, "kind", "epoch", "holder", "batch", "previous_batch")
    assert entries[1:] == [("expired", epoch, "the a", 4, 1)]


def test_rows_come_after_the_commit_and_once(jobs: Jobs) -> None:
    epoch = jobs.lead("a")
    for batch in range(PAGE_ENTRIES[BATCHES] + 1):
        jobs.commit_batch(batch, epoch)
    jobs.commit_batch(1, epoch, "other")
    last = PAGE_ENTRIES[BATCHES]

    def report(rows: dict[int, int], epoch: int = epoch, session: str = "a") -> Any:
        return jobs.done(ReportRows(Attempt(session), STORE, epoch, "checkpoint", rows))["entered"]

    assert report({0: 0, 1: 7, last: 9, last + 1: 5}) == 3, "the batch after the last one is not committed yet"
    assert jobs.accepted(ReportRows(Attempt("a"), STORE, epoch, "checkpoint", {0: 3, last: 9})).changes == {}
    told = jobs.told(BATCHES, "directory", "batch", "input_rows")
    assert [each for each in told if each[2] is not None] == [
        ("checkpoint", 0, 0),
        ("checkpoint", 1, 7),
        ("checkpoint", last, 9),
    ]
    jobs.done(Resign(Attempt("a"), STORE))
    later = jobs.lead("b")
    jobs.refused(ReportRows(Attempt("a"), STORE, epoch, "checkpoint", {2: 1}))
    assert report({2: 1}, later, "b") == 0, "of a batch of another driver, its own driver knows the rows"


def test_pages_are_small_and_the_oldest_goes_in_the_commit_of_the_next(jobs: Jobs) -> None:
    epoch = jobs.lead("a")
    last = MOST_PAGES[BATCHES] * PAGE_ENTRIES[BATCHES]
    for batch in range(last):
        jobs.commit_batch(batch, epoch)
    assert len(jobs.told(BATCHES, "batch")) == last
    another = jobs.commit_batch(last, epoch)
    assert {key: each is None for key, each in another.changes.items() if page_of(key)} == {
        page_key(STORE, BATCHES, 1): True,
        page_key(STORE, BATCHES, MOST_PAGES[BATCHES] + 1): False,
    }
    assert jobs.told(BATCHES, "batch")[0] == (PAGE_ENTRIES[BATCHES],)


def test_entries_of_long_names_make_shorter_pages() -> None:
    jobs = Jobs()
    process = Process("ä" * 255, 1, "ä" * 200, "http://" + "ä" * 493)
    jobs.done(OpenSession(Attempt("s"), 10.0, "ä" * 200, process=process))
    for _ in range(100):
        jobs.lead("s")
        jobs.done(Resign(Attempt("s"), STORE))
    check(jobs.view, jobs.store())
    sizes = [len(encode(page_key(STORE, ACTS, 1), page)) for page in pages_of(jobs.view, STORE, ACTS)]
    assert len(sizes) == MOST_PAGES[ACTS]
    assert max(sizes) < PAGE_BYTES + 5 * 1024


def test_old_pages_go_when_another_is_begun(jobs: Jobs) -> None:
    epoch = jobs.lead("a")
    for batch in range(2 * PAGE_ENTRIES[BATCHES]):
        jobs.commit_batch(batch, epoch)
    old, young = "2026-01-01T00:00:00.000Z", "2026-03-01T00:00:00.000Z"
    for number, wall in ((1, old), (2, young)):
        page = pages_of(jobs.view, STORE, BATCHES)[number - 1]
        entries = tuple(msgspec.structs.replace(entry, at=wall) for entry in page.entries)
        jobs.put(page_key(STORE, BATCHES, number), msgspec.structs.replace(page, entries=entries))
    temporary, target = "checkpoint/commits/.x.tmp", f"checkpoint/commits/{2 * PAGE_ENTRIES[BATCHES]}"
    jobs.accepted(PutFile(LEADER, STORE, temporary, epoch, NO_BLOB, b"v1"))
    context = replace(jobs.context, revision=jobs.context.revision + 1, wall="2026-04-15T00:00:00.000Z")
    decision = decide(jobs.view, RenamePath(LEADER, STORE, temporary, epoch, target), context)
    assert isinstance(decision, Accepted)
    assert [key for key, each in decision.changes.items() if page_of(key) and each is None] == [
        page_key(STORE, BATCHES, 1)
    ]


@pytest.mark.parametrize("log", [ACTS, BATCHES])
def test_a_page_that_cannot_be_read_stays_and_the_job_goes_on_behind_it(jobs: Jobs, log: str) -> None:
    epoch = jobs.lead("a")
    jobs.commit_batch(0, epoch)
    key = page_key(STORE, log, 1)
    jobs.put(key, Corrupt(f"{log}-1", "damaged"))
    assert jobs.state.count_unreadable(STORE) == 1
    assert not jobs.state.has_unreadable(STORE)
    jobs.commit_batch(1, epoch)
    jobs.commit_batch(0, epoch, "other")
    jobs.done(Resign(Attempt("a"), STORE))
    jobs.lead("b")
    assert isinstance(jobs.view.get(key), Corrupt)
    assert jobs.view.history_pages(STORE, log) == [1, 2]
    found = jobs.told(log, "kind", "epoch", "batch", "replay")
    if log == BATCHES:
        assert [each[2:] for each in found] == [(1, False), (0, False)]
    else:
        assert [each[:2] for each in found] == [("epoch-ended", 1), ("epoch-granted", 2)]


def test_a_page_is_stored_and_read_again(jobs: Jobs) -> None:
    epoch = jobs.lead("a")
    jobs.commit_batch(0, epoch)
    for log in (ACTS, BATCHES):
        key = page_key(STORE, log, 1)
        page = jobs.view.get(key)
        assert isinstance(page, HistoryPage)
        assert decode(key, encode(key, page)) == page
        assert isinstance(decode(page_key(STORE, log, 2), encode(key, page)), Corrupt)


def test_entries_of_groups_in_flight_count_and_go_with_them(jobs: Jobs) -> None:
    jobs.lead("a")
    view = View(jobs.state)
    context = replace(jobs.context, revision=jobs.context.revision + 1)
    for number, request in enumerate((Resign(Attempt("a", "r"), STORE), Campaign(Attempt("b", "c"), STORE)), 1):
        decision = decide(view, request, replace(context, revision=context.revision + number))
        assert isinstance(decision, Accepted)
        view.stage(decision.changes, number)
    ended = decide(view, EndSession(Attempt("b", "e")), replace(context, revision=context.revision + 3))
    assert isinstance(ended, Accepted)
    page = ended.changes[page_key(STORE, ACTS, 1)]
    assert isinstance(page, HistoryPage)
    assert [(entry.kind, entry.epoch) for entry in page.entries] == [
        ("epoch-granted", 1),
        ("epoch-ended", 1),
        ("epoch-granted", 2),
        ("epoch-ended", 2),
    ]
    view.discard_in_flight()
    assert [entry.epoch for entry in entries_of(view, STORE, ACTS)] == [1]


def test_while_the_pointer_store_is_full_nothing_is_entered(jobs: Jobs) -> None:
    class Full:
        full: str | None = None

    store = Full()
    decided = GrowthCheck(store).deciding(decide)  # type: ignore[arg-type]
    jobs.lead("a")
    request = EndSession(Attempt("a"))
    roomy = decided(jobs.view, request, jobs.context)
    store.full = "no room"
    full = decided(jobs.view, request, jobs.context)
    assert isinstance(roomy, Accepted)
    assert isinstance(full, Accepted)
    assert roomy.changes.keys() - full.changes.keys() == {page_key(STORE, ACTS, 1)}
    assert full.changes
