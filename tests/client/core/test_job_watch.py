"""Watching a job against scripted answers: places, resumption over a fail-over, and what is no longer kept."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.core.effects import Answer
from milepost.core.job_watch import watch_job
from milepost.errors import Compacted, NotExist, NotSupported
from milepost.wire import Code
from tests.client.core.test_watch import CUT, DEAD, TIME, Watched, block, stream
from tests.client.core.world import answer, problem


def entry(id_: str, kind: str = "batch-committed", **members: Any) -> dict[str, Any]:
    return {"kind": kind, "at": TIME, "revision": int(id_.partition(".")[0]), "id": id_, **members}


def event(id_: str, kind: str = "batch-committed", **members: Any) -> bytes:
    return block(id_, kind, **entry(id_, kind, **members))


def history(revision: int, *ids: str, following: str | None = None, damaged: str = "") -> Answer:
    corrupt = [{"name": damaged, "reason": "not JSON"}] if damaged else []
    page = {"job": "j", "entries": [entry(each) for each in ids], "corrupt": corrupt, "next": following}
    return answer(page, milepost_revision=str(revision))


def events(world: Watched, **arguments: Any) -> list[tuple[str, str | None]]:
    """Watch until the script is used up; what was emitted."""
    world.run(watch_job(world.caller, "j", **{"after": None, "existing": False, "timeout": 100.0, **arguments}))
    assert not world.script
    return [(each.kind, each.id) for each in world.emitted]


def batches(*ids: str) -> list[tuple[str, str | None]]:
    return [("batch-committed", each) for each in ids]


def test_a_watch_begins_after_what_was_read_and_resumes_after_the_last_place() -> None:
    world = Watched(
        history(7, "7", "6"),
        stream(block("7"), event("8")[:9], event("8")[9:] + event("9.0", "epoch-ended", epoch=1), CUT),
        stream(block("9.0"), event("9", "epoch-granted", epoch=2, holder="b"), block("15"), DEAD),
        stream(block("15"), block("20", "end", reason="leader-changes").replace(b"id: 20\n", b"")),
    )
    assert events(world) == [("batch-committed", "8"), ("epoch-ended", "9.0"), ("epoch-granted", "9")]
    assert (world.emitted[2].epoch, world.emitted[2].holder) == (2, "b")
    assert world.header("Last-Event-ID")[1:] == ["7", "9.0", "15", "15"]


def test_what_is_kept_comes_first_the_oldest_before_the_others() -> None:
    world = Watched(history(7, "7", "6.1", following="t", damaged="batches-1"), history(9, "6.0"), stream(event("8")))
    found = events(world, existing=True)
    assert found == [("damaged", None), *batches("6.0", "6.1", "7", "8")]
    assert world.header("Last-Event-ID")[2] == "7", "the first page says from where the stream has all"


def test_a_client_that_was_cut_off_for_too_long_is_told_so_and_goes_on_with_what_is_kept() -> None:
    world = Watched(
        history(7, "7"),
        stream(event("8"), CUT),
        problem(Code.COMPACTED, revision=90),
        CUT,
        history(90, "90", "80.0", "8"),
    )
    assert events(world) == [*batches("8"), ("missed", None), *batches("80.0", "90")]
    assert world.emitted[1].reason == "the service no longer keeps all entries after 8"
    assert world.header("Last-Event-ID")[-1] == "90"


def test_a_place_that_is_too_old_is_an_error_for_a_client_that_named_one() -> None:
    with pytest.raises(Compacted):
        events(Watched(stream(event("8"), CUT), problem(Code.COMPACTED, revision=90)), after="7")


def test_a_job_that_does_not_exist_and_a_service_that_has_no_such_stream() -> None:
    with pytest.raises(NotExist):
        events(Watched(problem(Code.NOT_EXIST)))
    with pytest.raises(NotSupported, match="a release without a stream of the events of job j"):
        events(Watched(history(7), problem(Code.NO_ROUTE)))
    upgrading = Watched(history(7), stream(event("8"), CUT), problem(Code.NO_ROUTE), stream(event("9")))
    assert events(upgrading) == batches("8", "9")


def test_an_entry_that_is_not_that_of_its_event_breaks_the_stream() -> None:
    world = Watched(history(7), stream(block("8", "batch-committed", **entry("8", "cloned"))), stream(event("8")))
    assert events(world) == batches("8")
