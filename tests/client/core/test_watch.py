"""Watching a store against scripted answers: places, resumption, dead connections, and what is made of two readings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from milepost.core.effects import Answer, Lost, Send
from milepost.core.event_stream import SILENT_SECONDS, Block, Blocks, BrokenStream
from milepost.core.store_calls import SessionContext, StoreCalls
from milepost.core.watch import wait_for, watch
from milepost.errors import AccessDenied, Compacted, DeadlineExceeded, NotSupported
from milepost.wire import Code
from tests.client.core.world import World, answer, problem

SHA = "0" * 64
TIME = "2026-01-31T12:00:00.000Z"
CUT = Lost("cut", sent=True)
DEAD = Lost("no more bytes", sent=True, timed_out=True)
Event = dict[str, Any]


def block(id_: str, type_: str = "", **data: Any) -> bytes:
    """A block of the stream; without a type, a place alone."""
    if not type_:
        return f"id: {id_}\n\n".encode()
    revision = int(id_.partition(".")[0])
    return f"id: {id_}\nevent: {type_}\ndata: {json.dumps({'revision': revision, **data})}\n\n".encode()


def added(id_: str, name: str, type_: str = "added") -> bytes:
    return block(id_, type_, name=name, version=f"l.{id_}", epoch=None)


def stream(*pieces: bytes | Lost) -> Answer:
    """A stream that ends with the last piece."""
    return Answer(200, {"milepost-term": "3", "content-type": "text/event-stream; charset=utf-8"}, stream=[*pieces])


def handle(name: str, version: str) -> dict[str, Any]:
    shown = {"name": name, "version": version, "size": 1, "sha256": SHA, "created": TIME, "updated": TIME, "locks": []}
    return {**shown, "removing": False}


def page(revision: int, handles: dict[str, str], following: str | None = None, *damaged: str) -> Answer:
    corrupt = [{"name": name, "reason": "not JSON"} for name in damaged]
    listed = [handle(*each) for each in handles.items()]
    return answer({"handles": listed, "corrupt": corrupt, "next": following}, milepost_revision=str(revision))


def epoch(revision: int, number: int = 0, session: str | None = None, wish: tuple[str, int] | None = None) -> Answer:
    shown: dict[str, Any] = {"epoch": number, "session": session, "holder": session, "since": None}
    if wish is not None:
        shown["wish"] = {"kind": wish[0], "epoch": wish[1], "at": TIME}
    return answer(shown, milepost_revision=str(revision))


def tree(revision: int, *snapshots: tuple[str, int, int], **savepoints: int) -> Answer:
    def shown(directory: str, batch: int, at: int) -> dict[str, Any]:
        return {"directory": directory, "batch": batch, "revision": at}

    kept = {
        "snapshots": [shown(*each) for each in snapshots],
        "savepoints": [{"name": name, **shown("c", 0, at)} for name, at in savepoints.items()],
        "passedOver": [],
    }
    return answer(kept, milepost_revision=str(revision))


def reading(revision: int, **handles: str) -> tuple[Answer, Answer, Answer]:
    return page(revision, handles), epoch(revision), tree(revision)


class Watched(World):
    """A world in which the time of every watch is over once the script is used up."""

    def _react(self, send: Send) -> Any:
        if self.script:
            return super()._react(send)
        self.sent.append(send)
        self.now += 1000
        return CUT


def calls(world: World) -> StoreCalls:
    return StoreCalls(world.caller, "s", SessionContext(None))


def events(world: World, **arguments: Any) -> list[tuple[str | None, str, str | None, str | None]]:
    """Watch until the script is used up; what was emitted."""
    world.run(watch(calls(world), **{"after": None, "existing": False, "timeout": 100.0, **arguments}))
    assert not world.script
    return [(each.id, each.type, each.name, each.version) for each in world.emitted]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_blocks_are_parsed_in_pieces_of_any_size(size: int) -> None:
    sent = b": hello\nretry: 1000\n: at 7\nid: 7\n\nid: 8\r\nevent: cleared\r\ndata: {}\r\n\r\n\n" + added("9", "ü")
    parser = Blocks()
    found = [each for at in range(0, len(sent), size) for each in parser.feed(sent[at : at + size])]
    assert found[:2] == [Block("7", "", ""), Block("8", "cleared", "{}")]
    assert json.loads(found[2].data)["name"] == "ü"
    with pytest.raises(BrokenStream):
        Blocks().feed(b"x" * (2 << 20))


def test_a_watch_reads_the_store_and_resumes_after_the_last_place() -> None:
    world = Watched(
        *reading(7, old="l.1"),
        stream(block("7"), added("8", "a")[:9], added("8", "a")[9:] + added("9", "a", "replaced"), CUT),
        stream(added("12", "b"), block("15"), DEAD),
        stream(block("20", "end", reason="leader-changes").replace(b"id: 20\n", b"")),
    )
    assert events(world) == [
        ("8", "added", "a", "l.8"),
        ("9", "replaced", "a", "l.9"),
        ("12", "added", "b", "l.12"),
    ]
    assert world.header("Last-Event-ID")[3:] == ["7", "9", "15", "15"]


def test_what_is_no_event_ends_the_connection_and_is_asked_for_again() -> None:
    bad = [
        block("9", "added", name=7),
        b"id: x\nevent: added\ndata: {}\n\n",
        b"id: 9\nevent: added\ndata: {\n\n",
        b'id: 9\nevent: added\ndata: {"revision":8}\n\n',
        b"id: \xff\n\n",
    ]
    world = Watched(*reading(7), stream(added("8", "a"), bad[0]), *map(stream, bad[1:]))
    assert [each[0] for each in events(world)] == ["8"]
    assert world.header("Last-Event-ID")[3:] == ["7", *["8"] * len(bad)]


def test_an_answer_that_is_no_stream_is_not_believed() -> None:
    world = Watched(*reading(7), answer({}), answer({}), answer({}), stream(added("8", "a")))
    assert [each[0] for each in events(world)] == ["8"]


def test_outages_do_not_end_a_watch_and_refusals_do() -> None:
    silence = [(3.0, Lost("nothing", sent=True, timed_out=True))] * 30
    world = Watched(*reading(7), *silence, stream(added("8", "a"), CUT), problem(Code.FORBIDDEN))
    with pytest.raises(AccessDenied):
        world.run(watch(calls(world), None, False, None))
    assert [each.id for each in world.emitted] == ["8"]
    assert world.now > 1000 + 2 * world.caller.timeout


def test_a_service_without_events_is_refused_at_once_and_waited_out_later() -> None:
    old = problem(Code.NOT_SUPPORTED)
    with pytest.raises(NotSupported):
        events(Watched(*reading(7), old))
    world = Watched(*reading(7), stream(block("7"), CUT), old, old, stream(added("8", "a"), CUT))
    assert [each[0] for each in events(world)] == ["8"]
    assert world.slept


def test_streams_that_end_at_once_are_not_asked_for_without_a_pause() -> None:
    world = Watched(*reading(7), *[stream(block("7"))] * 5)
    assert events(world) == []
    assert len(world.slept) >= 4


def test_where_the_history_is_gone_the_difference_is_told() -> None:
    world = Watched(
        page(7, {"gone": "l.1", "kept": "l.2", "moved": "l.3"}),
        epoch(7, 1, "a"),
        tree(7, ("c", 0, 6), old=6),
        stream(added("8", "b"), CUT),
        problem(Code.COMPACTED, revision=30),
        page(30, {"b": "l.8", "kept": "l.2", "moved": "l.20", "new": "l.21"}),
        epoch(31, 3, "c"),
        tree(32, ("c", 0, 6), ("c", 1, 22), new=22),
        stream(added("31", "x"), block("31.0", "epoch-granted", epoch=3, session="c"), added("33", "b", "removed")),
    )
    assert events(world) == [
        ("8", "added", "b", "l.8"),
        (None, "removed", "gone", "l.1"),
        (None, "replaced", "moved", "l.20"),
        (None, "added", "new", "l.21"),
        (None, "epoch-ended", None, None),
        (None, "epoch-granted", None, None),
        (None, "snapshot-taken", None, None),
        (None, "savepoint-made", "new", None),
        (None, "savepoint-dropped", "old", None),
        ("31", "added", "x", "l.31"),
        ("33", "removed", "b", "l.33"),
    ]
    assert [each.epoch for each in world.emitted if each.type.startswith("epoch")] == [1, 3]
    assert [each for each in world.header("Last-Event-ID") if each] == ["7", "8", "30", "33"]


def test_wishes_are_events_and_differences_too() -> None:
    """A hand-over ends with its epoch without an event of its own, a stop only once the job is started."""
    world = Watched(
        page(7, {}),
        epoch(7, 1, "a"),
        tree(9),
        stream(block("8", "hand-over-requested", epoch=1), block("10", "epoch-ended", epoch=1, session="a"), CUT),
        problem(Code.COMPACTED, revision=30),
        page(30, {}),
        epoch(31, 2, None, ("stop", 2)),
        tree(30),
        stream(block("31", "stop-requested", epoch=2), block("32"), CUT),
        problem(Code.COMPACTED, revision=40),
        *reading(40),
        stream(block("41", "stop-requested", epoch=0)),
    )
    assert [(id_, type_) for id_, type_, *_ in events(world)] == [
        ("8", "hand-over-requested"),
        ("10", "epoch-ended"),
        (None, "epoch-granted"),
        (None, "stop-requested"),
        (None, "started"),
        ("41", "stop-requested"),
    ]


def test_pages_that_were_read_at_different_revisions_are_neither_doubled_nor_left_out() -> None:
    world = Watched(
        page(10, {"a": "l.1", "b": "l.2"}, "token"),
        page(20, {"m": "l.15", "z": "l.3"}),
        epoch(20),
        tree(20),
        stream(added("12", "b", "replaced"), added("15", "m"), added("16", "aa"), block("18", "cleared")),
        stream(added("22", "a")),
    )
    assert events(world) == [
        ("12", "replaced", "b", "l.12"),
        ("16", "added", "aa", "l.16"),
        ("18", "removed", "a", "l.1"),
        ("18", "removed", "aa", "l.16"),
        ("18", "removed", "b", "l.12"),
        ("22", "added", "a", "l.22"),
    ]


def test_a_handle_whose_record_is_damaged_was_not_removed() -> None:
    world = Watched(
        *reading(7, a="l.1"),
        problem(Code.COMPACTED, revision=9),
        page(9, {}, None, "a"),
        epoch(9),
        tree(9),
        stream(added("12", "a", "removed")),
    )
    assert [each[:2] for each in events(world)] == [("12", "removed")]


def test_what_exists_comes_first_if_asked_for() -> None:
    world = Watched(page(7, {"a": "l.1"}), epoch(7, 2, "s"), tree(7, ("c", 4, 6), kept=6))
    shown = events(world, existing=True, timeout=0.0)
    assert [each[1] for each in shown] == ["added", "epoch-granted", "snapshot-taken", "savepoint-made"]


def test_from_a_place_of_the_callers_nothing_is_read_and_a_lost_history_is_an_error() -> None:
    world = Watched(stream(added("8", "a"), CUT), problem(Code.COMPACTED, revision=30))
    with pytest.raises(Compacted):
        world.run(watch(calls(world), "7", False, None))
    assert [each.id for each in world.emitted] == ["8"]
    assert world.header("Last-Event-ID") == ["7", "8"]


def test_a_connection_may_be_silent_for_three_heartbeats() -> None:
    world = Watched(*reading(7))
    events(world)
    assert world.sent[3].timeout >= SILENT_SECONDS
    assert world.sent[3].stream


def test_waiting_for_a_version_sees_a_change_between_read_and_watch() -> None:
    found = answer(handle("h", "l.9"))
    world = Watched(
        epoch(7),
        problem(Code.NOT_EXIST),
        stream(added("8", "other"), added("9", "h")),
        found,
    )
    assert world.run(wait_for(calls(world), "h", None, 60.0)).version == "l.9"
    assert world.header("Last-Event-ID")[2] == "7"


def test_waiting_for_a_version_begins_anew_without_a_history_and_ends() -> None:
    old = answer(handle("h", "l.1"))
    world = Watched(epoch(7), old, problem(Code.COMPACTED, revision=9), epoch(9), old)
    with pytest.raises(DeadlineExceeded):
        world.run(wait_for(calls(world), "h", "l.1", 60.0))
