"""The wishes of people: to stop a job, to hand it over, to start it again, and what they do to its epoch."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.wire import Code
from milepost_server.model.history import ACTS, HistoryPage, page_key
from milepost_server.model.records import store_key, tree_key
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Campaign, Resign
from milepost_server.model.requests.sessions import EndSession
from milepost_server.model.requests.wishes import HandOver, StartJob, StopJob
from milepost_server.model.trees import Savepoint, Tree, TreeSnapshot
from milepost_server.rules.events import CommittedChanges
from tests.service.rules.bench import STORE, Bench, add

NOBODY = Attempt("")
ANNA = Attempt("", name="operators")


def campaign(session: str, *, if_stopped: bool = False) -> Campaign:
    return Campaign(Attempt(session), STORE, if_stopped)


def resign(session: str) -> Resign:
    return Resign(Attempt(session), STORE)


def stop(savepoint: str = "", *, who: str = "anna", attempt: Attempt = ANNA) -> StopJob:
    return StopJob(attempt, STORE, who, "a release", savepoint)


def hand_over(ending: int = 0) -> HandOver:
    return HandOver(ANNA, STORE, "anna", "", ending)


START = StartJob(ANNA, STORE, "bert")


@pytest.fixture
def bench() -> Bench:
    """Driver a leads under epoch 1, driver b may stand by, and the job has committed batch 7."""
    made = Bench("a", "b")
    made.done(campaign("a"))
    committed(made, 7)
    return made


def committed(bench: Bench, batch: int) -> None:
    """Have the job commit a batch."""
    old = bench.state.tree(STORE)
    tree = old if isinstance(old, Tree) else Tree(STORE)
    revision = bench.context.revision
    snapshots = (*tree.snapshots, TreeSnapshot("checkpoint", batch, revision))
    bench.put(tree_key(STORE), Tree(STORE, snapshots=snapshots, savepoints=tree.savepoints))


def entered(bench: Bench) -> list[dict[str, Any]]:
    """What the history says after the grant of epoch 1."""
    page = bench.state.get(page_key(STORE, ACTS, 1))
    assert isinstance(page, HistoryPage)
    return [
        {
            name: value
            for name in ("kind", "how", "holder", "by", "savepoint", "epoch", "batch")
            if (value := getattr(entry, name))
        }
        for entry in page.entries[1:]
    ]


def savepoints(bench: Bench) -> tuple[Savepoint, ...]:
    tree = bench.state.tree(STORE)
    assert isinstance(tree, Tree)
    return tree.savepoints


def test_a_stop_asks_the_driver_and_bars_the_next_epoch_until_a_start(bench: Bench) -> None:
    asked = bench.done(stop())
    assert (asked["state"], asked["epoch"], asked["session"]) == ("stopping", 1, "a")
    assert asked["wish"] == {
        "kind": "stop",
        "epoch": 1,
        "at": bench.context.wall,
        "by": "operators",
        "who": "anna",
        "reason": "a release",
        "savepoint": None,
    }
    assert bench.done(campaign("a"))["epoch"] == 1, "the driver has its epoch until it resigns"
    bench.done(resign("a"))
    barred = bench.refused(campaign("b"))
    assert (barred.code, barred.extras["holder"]) == (Code.HELD, None)
    assert barred.extras["stopped"]["who"] == "anna"
    assert "stopped by anna as operators" in barred.detail
    assert bench.done(START)["state"] == "resigned"
    assert bench.done(campaign("b"))["epoch"] == 2
    assert [(each["kind"], each.get("how")) for each in entered(bench)] == [
        ("stop-requested", None),
        ("epoch-ended", "stopped"),
        ("started", None),
        ("epoch-granted", None),
    ]


def test_a_repeated_stop_is_answered_as_the_first(bench: Bench) -> None:
    first = bench.accepted(stop())
    again = bench.accepted(stop(who="bert"))
    assert (again.answer.body, again.changes) == (first.answer.body, {})
    bench.done(resign("a"))
    stopped = bench.accepted(stop(who="bert"))
    assert (stopped.answer.body["state"], stopped.answer.body["wish"]) == ("stopped", first.answer.body["wish"])
    assert stopped.changes == {}


def test_a_stop_with_a_savepoint_keeps_the_state_after_the_last_batch_in_the_commit_of_the_resignation(
    bench: Bench,
) -> None:
    bench.done(stop("before"))
    committed(bench, 8)  # the driver finishes its batch
    newest = bench.context.revision
    ended = bench.accepted(resign("a"))
    assert savepoints(bench) == (Savepoint("before", "checkpoint", 8, newest),)
    assert {store_key(STORE), tree_key(STORE)} <= ended.changes.keys(), "one commit does both"
    assert entered(bench)[1:] == [
        {"kind": "epoch-ended", "how": "stopped", "holder": "the a", "epoch": 1},
        {"kind": "savepoint-made", "holder": "anna", "by": "operators", "savepoint": "before", "batch": 8},
    ]


def test_a_savepoint_of_a_job_without_a_driver_is_made_at_once_and_once(bench: Bench) -> None:
    bench.done(EndSession(Attempt("a")))
    assert bench.done(stop("before"))["state"] == "stopped"
    made = savepoints(bench)
    assert [each.name for each in made] == ["before"]
    assert bench.accepted(stop("before")).changes == {}
    bench.done(stop("another"))
    assert [each.name for each in savepoints(bench)] == ["before", "another"]


def test_a_driver_that_died_before_it_resigned_leaves_the_savepoint_to_a_repeated_stop(bench: Bench) -> None:
    bench.done(stop("before"))
    bench.done(EndSession(Attempt("a")))
    assert savepoints(bench) == ()
    assert bench.done(stop("before"))["state"] == "stopped"
    assert [each.name for each in savepoints(bench)] == ["before"]


def test_what_prevents_a_savepoint_refuses_the_stop_or_is_told_by_a_repeated_one(bench: Bench) -> None:
    bench.put(tree_key(STORE), Tree(STORE, savepoints=(Savepoint("taken", "checkpoint", 3, 1),)))
    committed(bench, 7)
    assert bench.code(stop("taken")) is Code.ALREADY_EXISTS
    bench.done(stop("before"))
    assert bench.code(stop("another")) is Code.ALREADY_EXISTS, "one savepoint is being made"
    other = Savepoint("before", "checkpoint", 3, 1)  # another hand makes a savepoint of that name meanwhile
    bench.put(tree_key(STORE), Tree(STORE, snapshots=(TreeSnapshot("checkpoint", 9, 5),), savepoints=(other,)))
    bench.done(resign("a"))
    assert savepoints(bench) == (other,)
    assert bench.code(stop("before")) is Code.ALREADY_EXISTS


def test_a_savepoint_may_be_asked_for_before_the_first_batch_of_a_driver() -> None:
    bench = Bench("a")
    bench.done(campaign("a"))
    bench.done(stop("before"))
    bench.done(resign("a"))
    assert bench.code(stop("before")) is Code.NOT_EXIST, "there was no batch"
    assert bench.done(stop())["state"] == "stopped"


def test_who_acts_on_a_stopped_job_may_take_the_epoch_and_the_job_stays_stopped(bench: Bench) -> None:
    bench.done(stop())
    bench.done(resign("a"))
    assert bench.done(campaign("b", if_stopped=True))["epoch"] == 2
    assert bench.done(hand_over())["state"] == "led", "the wish was about epoch 1, and no standby could lead"
    bench.done(resign("b"))
    assert entered(bench)[-1]["how"] == "resigned"
    assert bench.code(campaign("a")) is Code.HELD


def test_a_stop_asks_a_driver_that_leads_a_stopped_job_anew(bench: Bench) -> None:
    bench.done(stop())
    bench.done(resign("a"))
    bench.done(campaign("b", if_stopped=True))
    asked = bench.done(stop(who="bert"))
    assert (asked["state"], asked["wish"]["epoch"], asked["wish"]["who"]) == ("stopping", 2, "bert")


def test_a_start_takes_back_a_stop_that_the_driver_has_not_followed_yet(bench: Bench) -> None:
    bench.done(stop())
    assert bench.done(START)["state"] == "led"
    assert bench.accepted(START).changes == {}
    bench.done(resign("a"))
    assert bench.done(campaign("b"))["epoch"] == 2


def test_a_hand_over_names_the_epoch_that_ends_and_bars_nothing(bench: Bench) -> None:
    asked = bench.done(hand_over(1))
    assert (asked["state"], asked["wish"]["kind"], asked["wish"]["epoch"]) == ("led", "hand-over", 1)
    assert bench.accepted(hand_over(1)).changes == {}, "it is asked already"
    bench.done(resign("a"))
    assert bench.done(campaign("b"))["epoch"] == 2
    assert bench.store().wish is None
    assert [each.get("how") for each in entered(bench)] == [None, "handed-over", None]


def test_a_hand_over_of_an_epoch_that_has_ended_asks_nothing(bench: Bench) -> None:
    bench.done(resign("a"))
    assert bench.accepted(hand_over(1)).changes == {}
    bench.done(campaign("b"))
    assert bench.accepted(hand_over(1)).changes == {}
    assert bench.code(hand_over(3)) is Code.FENCED


def test_a_hand_over_whose_driver_dies_is_forgotten(bench: Bench) -> None:
    bench.done(hand_over())
    ended = bench.done(EndSession(Attempt("a")))
    assert ended == {}
    assert bench.done(hand_over())["wish"] is None
    bench.done(campaign("b"))
    assert bench.store().wish is None


def test_a_stop_replaces_a_hand_over(bench: Bench) -> None:
    bench.done(hand_over())
    assert bench.done(stop())["wish"]["kind"] == "stop"
    assert bench.done(hand_over())["wish"]["kind"] == "stop"


@pytest.mark.parametrize("wish", [stop(), hand_over(), START])
def test_there_is_no_wish_about_what_is_no_job(wish: StopJob | HandOver | StartJob) -> None:
    bench = Bench("a")
    assert bench.code(wish) is Code.NOT_EXIST
    bench.done(add("a", "h"))
    assert bench.code(wish) is Code.NOT_EXIST


def test_each_wish_is_an_event_of_the_store(bench: Bench) -> None:
    def events(request: StopJob | HandOver | StartJob | Resign) -> list[str]:
        before = CommittedChanges(bench.state)
        changes = bench.decide_only(request)
        return [event.type for _, event in before.events(changes, bench.context.revision)]

    assert events(hand_over()) == ["hand-over-requested"]
    assert events(stop()) == ["stop-requested"]
    bench.done(stop())
    assert events(START) == ["started"]
    assert events(resign("a")) == ["epoch-ended"]
