"""``GET /v1/stores/{store}/events`` and ``GET /v1/jobs/{store}/events``: ordered, unique, complete from the place that
a client has, and over a leader's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from testbed.server import ServerProcess
from tests.support.servers.replicas import PROMPT
from tests.wire.support.api import Api, connect, problem, until
from tests.wire.support.events import Stream, watching
from tests.wire.support.in_process import InProcess, in_process


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """A server whose streams are never silent for long."""
    with in_process(tmp_path_factory.mktemp("events"), replace(PROMPT, heartbeat_seconds=0.05)) as running:
        yield running


def change(api: Api) -> list[tuple[str, str | None]]:
    """Make changes of every kind but those of trees; their events, in order, with the versions."""
    epoch = api.granted()
    under = api.under(epoch)
    first = under.added("h")["version"]
    second = under.replace("h", first).json()["version"]
    assert api.lock("h").status_code == 200
    assert under.remove("h").json() == {"removed": True}
    kept = under.added("kept")["version"]
    assert under.clear().json() == {"cleared": 1}
    assert api.resign().status_code == 204
    return [
        ("epoch-granted", None),
        ("added", first),
        ("replaced", second),
        ("removed", second),
        ("added", kept),
        ("cleared", None),
        ("epoch-ended", None),
    ]


def test_a_client_that_read_the_list_gets_each_change_once_and_in_order(api: Api) -> None:
    before = api.revision()
    expected = change(api)
    other = api.other()
    with watching(api.http, api.store, before) as stream:
        assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert int(stream.response.headers["milepost-revision"]) == before
        assert int(stream.response.headers["milepost-term"]) >= 1
        events = stream.take(len(expected))
        assert [(event.type, event.data.get("version")) for event in events] == expected
        assert events[0].data == {"revision": events[0].place[0], "epoch": 1, "session": api.session}
        assert events[1].data["epoch"] == 1
        assert all(event.data["revision"] == event.place[0] for event in events)
        places = [event.place for event in events]
        assert places == sorted(set(places))
        other.granted()
        assert stream.next().data["epoch"] == 2
    for number, event in enumerate(events):
        for given in ({"after": event.id}, {"after": str(event.place[0])}):
            with watching(api.http, api.store, given["after"]) as stream:
                assert stream.take(len(events) - number)[:-1] == events[number + 1 :]
        with watching(api.http, api.store, before, {"Last-Event-ID": event.id}) as stream:
            assert stream.next() == [*events, stream.next()][number + 1] if number + 1 < len(events) else stream.next()


def test_a_watch_without_a_place_begins_now_and_sees_no_other_store(api: Api) -> None:
    api.granted()
    with watching(api.http, api.store) as stream:
        first = stream.block()
        assert first is not None
        assert (first.type, first.place[0] >= api.revision() - 1) == ("", True)
        replace(api, store=f"{api.store}-other").added("h")
        api.under(1).added("mine")
        assert stream.next().data["name"] == "mine"


def test_a_job_tells_each_entry_of_its_history_once_and_in_order(api: Api) -> None:
    job = api.under(api.granted())
    before = api.revision()
    for batch in range(3):
        assert job.call("PUT", f"/files/q/commits/{batch}", content=b"v1").status_code == 201
    assert job.call("PUT", "/tree/savepoints/kept").status_code == 200
    assert job.resign().status_code == 204
    entries = api.http.get(f"/v1/jobs/{api.store}/history").json()["entries"][::-1]
    with watching(api.http, api.store, 0, of="jobs") as stream:
        assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert int(stream.response.headers["milepost-revision"]) == 0
        events = stream.take(len(entries))
        assert [event.data for event in events] == entries
        assert [(event.id, event.type) for event in events] == [(each["id"], each["kind"]) for each in entries]
        replace(api, store=f"{api.store}-other").other().granted()
        api.granted()
        later = stream.next()
        assert (later.type, later.data["epoch"]) == ("epoch-granted", 2)
    for number, event in enumerate(events):
        with watching(api.http, api.store, before, {"Last-Event-ID": event.id}, of="jobs") as stream:
            assert stream.take(len(events) - number) == [*events[number + 1 :], later]


def test_a_job_is_watched_from_now_on_if_it_is_there(api: Api) -> None:
    def refused(status: int, code: str, store: str = api.store, **given: str) -> None:
        problem(api.http.get(f"/v1/jobs/{store}/events", params=given), status, code)

    refused(404, "not-exist", f"{api.store}-never")
    job = api.under(api.granted())
    for place in ("x", "-1", "1.2.3"):
        refused(422, "invalid-request", after=place)
    refused(422, "invalid-request", since="1")
    refused(410, "compacted", after=str(10**12))
    with watching(api.http, api.store, of="jobs") as stream:
        first = stream.block()
        assert first is not None
        assert (first.type, first.place[0] >= api.revision() - 1) == ("", True)
        job.added("no-event-of-a-job")
        assert job.call("PUT", "/files/q/commits/0", content=b"v1").status_code == 201
        assert stream.next().data["batch"] == 0


def test_places_that_are_none(api: Api) -> None:
    for given in ("", "x", "-1", "1.", "1.x", "1.2.3", "9" * 19, "\uff11"):
        problem(api.call("GET", "/events", params={"after": given}), 422, "invalid-request")
        if given.isascii() and given:
            problem(api.call("GET", "/events", headers={"Last-Event-ID": given}), 422, "invalid-request")
    problem(api.call("GET", "/events", params={"since": "1"}), 422, "invalid-request")
    problem(api.call("GET", "/events", headers={"Accept": "application/json"}), 406, "not-acceptable")


def test_a_place_that_is_still_to_come_is_gone_and_the_answer_names_where_to_begin(api: Api) -> None:
    gone = problem(api.call("GET", "/events", params={"after": str(10**12)}), 410, "compacted")
    api.added("h")
    with watching(api.http, api.store, gone["revision"]) as stream:
        assert stream.next().data["name"] == "h"


def test_a_silent_stream_tells_its_place_which_moves_with_other_stores(here: InProcess) -> None:
    api = Api.on(here.http, "silent")
    with watching(here.http, "silent") as stream:
        replace(api, store="another").added("h")
        revision = api.revision()

        def moved() -> bool:
            event = stream.block()
            assert event is not None
            assert event.type == ""
            return event.id == str(revision)

        until(moved, "the place of the stream moves")


def test_an_event_is_shown_once_it_is_committed(here: InProcess) -> None:
    api = Api.on(here.http, "held")
    with watching(here.http, "held") as stream, connect(str(here.http.base_url)) as other:
        with ThreadPoolExecutor(1) as pool, here.held_commit() as begun:
            adding = pool.submit(replace(api, http=other).added, "h")
            begun()
            for _ in range(5):
                block = stream.block()
                assert block is not None
                assert block.type == ""
        assert stream.next().data["version"] == adding.result()["version"]


def test_a_client_that_ends_its_side_ends_the_stream(here: InProcess) -> None:
    watches = here.rig.operations.watching
    with watching(here.http, "left"):
        pass
    until(lambda: not watches._open, "no watch is left")


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two replicas of one deployment; the first leads to begin with."""
    (tmp_path / "second").mkdir()
    with (
        ServerProcess(tmp_path) as first,
        ServerProcess(tmp_path / "second", pointers=first.pointers, blobs=first.blobs) as second,
    ):
        first.start()
        second.start(until="/readyz")
        yield [first, second]


def ended(stream: Stream) -> str:
    """Read to the end; the reason that the stream gives."""
    event = stream.next()
    while event.type != "end":
        event = stream.next()
    assert stream.block() is None
    reason: str = event.data["reason"]
    return reason


@pytest.mark.later
def test_a_watch_goes_on_over_a_step_down_and_a_kill(replicas: list[ServerProcess]) -> None:
    first, second = replicas
    with connect(first.url) as one, connect(second.url) as other:
        api = Api.on(one, "s")
        revision = api.revision()
        sent_on = other.get("/v1/stores/s/events", params={"after": "7"})
        assert (sent_on.status_code, sent_on.headers["location"]) == (307, f"{first.url}/v1/stores/s/events?after=7")
        with watching(one, "s", revision) as stream:
            api.added("a")
            added = stream.next()
            replace(api, store="another").added("h")  # so that the last revision is no event of this store
            with connect(first.url) as third:
                assert third.post("/v1/step-down").status_code == 200
            assert ended(stream) == "leader-changes"
        place = stream.last
        assert int(place) > added.place[0]
        until(lambda: other.get("/leader").status_code == 200, "the other leads")
        granted = replace(api, http=other, store="job").other().granted()
        problem(other.get("/v1/stores/s/events", params={"after": added.id}), 410, "compacted")
        onward = replace(api, http=other)
        onward.added("b")
        with watching(other, "s", headers={"Last-Event-ID": place}) as stream:
            assert stream.next().data["name"] == "b"
            onward.added("c")
            last = stream.next()
            second.kill()
            with pytest.raises(httpx.HTTPError):
                stream.next()
        until(lambda: one.get("/leader").status_code == 200, "the first leads again")
        with watching(one, "s", headers={"Last-Event-ID": last.id}) as stream:
            api.added("d")
            assert stream.next().data["name"] == "d"
        replace(api, store="job").other().call("POST", "/epoch", json={"wait": 0})
        with watching(one, "job", headers={"Last-Event-ID": added.id}, of="jobs") as stream:
            kept = stream.next()  # the history is stored, so a crash makes no place of a job too old
            assert (kept.type, kept.data["epoch"]) == ("epoch-granted", granted)
