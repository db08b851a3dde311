"""``GET /v1/cells/{cell}/…``: what a replica asks of other cells for the console, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from milepost.wire import cells_digest
from milepost_server.http.cells.relay import MOST_ANSWER_BYTES, MOST_AT_ONCE
from testbed.server import ServerProcess
from tests.support.network.scripted_server import Behaviour, ScriptedServer, reply, stall, trickle
from tests.wire.support.api import connect, problem, until

CELLS = ("--cells", "a,b")
READER, ONE, UNKNOWN = "reader-of-everything-0123", "reader-of-one-job-0123456", "nobody-has-this-one-01234"
TOKENS = f"all {READER} reader=* writer=*\none {ONE} reader=first-*\n"


class Two(NamedTuple):
    """The leader of the cell a, whose list has the address of the follower of the cell b, and its leader."""

    a: httpx.Client
    leader: ServerProcess
    follower: ServerProcess
    listed: Path
    log: ServerProcess


def bearing(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    place = tmp_path_factory.mktemp("cells")
    (tokens := place / "tokens").write_text(TOKENS)
    flags = (*CELLS, "--token-file", str(tokens))
    names = ("a", "b", "follower")
    for name in names:
        (place / name).mkdir()
    with ExitStack() as running:
        b = running.enter_context(ServerProcess(place / "b", "--cell", "b", *flags)).start()
        follower = ServerProcess(place / "follower", "--cell", "b", *flags, pointers=b.pointers, blobs=b.blobs)
        running.enter_context(follower).start(until="/readyz")
        a = ServerProcess(place / "a", "--cell", "a", *flags, "--cell-addresses", f"@{place / 'list'}")
        (place / "list").write_text(f"a={a.url}\nb={follower.url}  # the leader is another one\nwrong={b.url}\n")
        running.enter_context(a).start()
        with connect(b.url) as http:
            for job in ("first-job", "second-job"):
                begun = http.put(f"/v1/jobs/{job}/placement", json={"cells": digest()}, headers=bearing(READER))
                assert begun.status_code == 200
                driver = bearing(READER, **{"Milepost-Session": job})
                http.post("/v1/sessions", json={"ttl": 900, "session": job}, headers=driver).raise_for_status()
                http.post(f"/v1/stores/{job}/epoch", headers=driver).raise_for_status()
        yield Two(running.enter_context(connect(a.url)), b, follower, place / "list", a)


def digest() -> str:
    return cells_digest(("a", "b"))


@contextmanager
def asking(place: Path, script: Behaviour) -> Iterator[tuple[httpx.Client, ScriptedServer]]:
    """A cell that knows another one, which behaves by the script."""
    place.mkdir(exist_ok=True)
    with ScriptedServer(repeat(script)) as other, ServerProcess(place, "--cell", "a", *CELLS) as server:
        server.flags += ("--cell-addresses", f"a={server.url};b={other.url}")
        with connect(server.start().url) as client:
            yield client, other


def test_what_another_cell_knows_is_asked_with_the_callers_own_token(two: Two) -> None:
    jobs = two.a.get("/v1/cells/b/jobs?limit=1", headers=bearing(READER))
    assert [each["job"] for each in jobs.json()["jobs"]] == ["first-job"]
    rest = two.a.get("/v1/cells/b/jobs", params={"token": jobs.json()["next"]}, headers=bearing(READER)).json()
    assert ([each["job"] for each in rest["jobs"]], rest["next"]) == (["second-job"], None)
    of_one = two.a.get("/v1/cells/b/jobs", headers=bearing(ONE)).json()
    assert [each["job"] for each in of_one["jobs"]] == ["first-job"]
    assert two.a.get("/v1/cells/b/jobs/first-job", headers=bearing(ONE)).json()["session"] == "first-job"
    history = two.a.get("/v1/cells/b/jobs/first-job/history", headers=bearing(ONE)).json()
    assert [each["kind"] for each in history["entries"]] == ["epoch-granted"]
    assert two.a.get("/v1/cells/b/status", headers=bearing(ONE)).json()["leader"] == two.leader.url
    sessions = two.a.get("/v1/cells/b/sessions", headers=bearing(READER)).json()["sessions"]
    assert {each["session"] for each in sessions} == {"first-job", "second-job"}


def test_a_replica_asks_the_leader_of_its_own_cell(two: Two) -> None:
    assert two.a.get("/v1/cells/a/jobs", headers=bearing(READER)).json()["jobs"] == []
    with connect(two.follower.url) as http:
        jobs = http.get("/v1/cells/b/jobs", headers=bearing(ONE)).json()["jobs"]
        assert [each["job"] for each in jobs] == ["first-job"]
        problem(http.get("/v1/cells/a/jobs", headers=bearing(ONE)), 404, "not-exist")


def test_who_may_not_read_there_does_not_read_it_from_here(two: Two) -> None:
    for path in ("b/jobs", "a/jobs", "b/status", "nowhere/jobs"):
        for headers in ({}, bearing(UNKNOWN)):
            problem(two.a.get(f"/v1/cells/{path}", headers=headers), 401, "unauthenticated")
    for path in ("jobs/second-job", "jobs/second-job/history", "sessions"):
        for cell in ("a", "b"):
            problem(two.a.get(f"/v1/cells/{cell}/{path}", headers=bearing(ONE)), 403, "forbidden")
    for server in (two.log, two.leader, two.follower):
        assert not [token for token in (READER, ONE, UNKNOWN) if token in server.logged()]


def test_nothing_else_is_asked_of_a_cell(two: Two) -> None:
    for path in ("stores", "jobs/first-job/placement", "jobs/first-job/events", "whoami", "cells/b/jobs", ""):
        for cell in ("a", "b"):
            problem(two.a.get(f"/v1/cells/{cell}/{path}", headers=bearing(READER)), 404, "no-route")
    problem(two.a.get("/v1/cells/b/jobs/..%2Fstatus", headers=bearing(READER)), 422, "invalid-name")
    problem(two.a.get("/v1/cells/b/jobs?surprise=1", headers=bearing(READER)), 422, "invalid-request")
    problem(two.a.get("/v1/cells/nowhere/jobs", headers=bearing(READER)), 404, "not-exist")
    problem(two.a.post("/v1/cells/b/jobs", headers=bearing(READER)), 405, "method-not-allowed")


def test_what_was_sent_on_is_not_sent_on_again(two: Two) -> None:
    relayed = bearing(READER, **{"Milepost-Relayed": "c"})
    problem(two.a.get("/v1/cells/b/jobs", headers=relayed), 404, "not-exist")
    assert two.a.get("/v1/cells/a/jobs", headers=relayed).status_code == 200
    wrong = problem(two.a.get("/v1/cells/wrong/jobs", headers=bearing(READER)), 404, "not-exist")
    assert "this is the cell b, and not 'wrong'" in wrong["detail"]


def test_a_list_that_changes_is_read_again(two: Two) -> None:
    status = two.a.get("/v1/status", headers=bearing(ONE)).json()
    assert (status["cell"], status["cells"]) == ("a", ["a", "b", "wrong"])
    before = two.listed.read_text()
    two.listed.write_text(f"{before}c={two.leader.url}\n")
    until(lambda: "c" in two.a.get("/v1/status", headers=bearing(ONE)).json()["cells"], "a longer list")
    two.listed.write_text("b=http://user:password@elsewhere\n")
    two.log.wait_for_log("the new list of cells cannot be used: the cell 'b' has an address")
    assert two.a.get("/v1/cells/b/jobs", headers=bearing(READER)).status_code == 200
    assert "password@" not in two.log.logged()
    two.listed.write_text(before)
    until(lambda: "c" not in two.a.get("/v1/status", headers=bearing(ONE)).json()["cells"], "the list from before")


NO_ANSWERS = {
    "silent": (stall(), "no answer in time"),
    "slow": (trickle(b"{}", pause=60.0), "no answer in time"),
    "too large": (reply(200, b"x" * MOST_ANSWER_BYTES), f"more than {MOST_ANSWER_BYTES} bytes"),
    "no Milepost": (reply(200, {"jobs": []}, Milepost_Term=""), "something else than a replica"),
}


@pytest.mark.parametrize(("script", "why"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_cell_that_does_not_answer_as_it_should_is_away(tmp_path: Path, script: Behaviour, why: str) -> None:
    with asking(tmp_path, script) as (client, other):
        away = problem(client.get("/v1/cells/b/jobs"), 503, "no-leader")
        assert why in away["detail"]
        assert away["detail"].startswith("no replica of the cell b answers: ")
        assert client.get("/v1/cells/a/jobs").status_code == 200
        (seen,) = other.seen
        assert (seen.path, seen.headers["milepost-relayed"]) == ("/v1/cells/b/jobs", "a")


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with ScriptedServer(()) as elsewhere:
        leads = reply(307, Location=f"{elsewhere.url}/v1/jobs")
        with asking(tmp_path, leads) as (client, _):
            away = problem(client.get("/v1/cells/b/jobs", headers=bearing(READER)), 503, "no-leader")
            assert "leads elsewhere, and is not followed" in away["detail"]
        assert elsewhere.seen == []


def test_a_cell_of_an_earlier_release_is_called_so(tmp_path: Path) -> None:
    """Such a replica knows no such path."""
    earlier = {"type": "urn:milepost:no-route", "detail": "GET /v1/cells/b/jobs"}
    with asking(tmp_path, reply(404, earlier, Content_Type="application/problem+json")) as (client, _):
        said = problem(client.get("/v1/cells/b/jobs"), 501, "not-supported")
        assert said["detail"] == "the cell b is of an earlier release, without this"


def test_a_replica_that_is_away_is_passed_over_and_the_next_one_asked(tmp_path: Path) -> None:
    dead = reply(503, b"{}", Content_Type="application/problem+json")
    with ScriptedServer(repeat(reply(200, {"jobs": []}))) as good, asking(tmp_path / "a", dead) as (_, bad):
        with ServerProcess(tmp_path, "--cell", "a", *CELLS) as server:
            server.flags += ("--cell-addresses", f"a={server.url};b={bad.url},http://127.0.0.1:9,{good.url}")
            with connect(server.start().url) as client:
                for _ in range(3):
                    assert client.get("/v1/cells/b/jobs").json() == {"jobs": []}
        assert (len(bad.seen), len(good.seen)) == (1, 3), "the one that answered is asked first"


def test_many_requests_to_a_cell_that_is_silent_take_no_more_room_than_there_is(tmp_path: Path) -> None:
    with asking(tmp_path, stall()) as (client, other), ThreadPoolExecutor(3 * MOST_AT_ONCE) as threads:
        answers = list(threads.map(client.get, repeat("/v1/cells/b/jobs", 3 * MOST_AT_ONCE)))
        assert {answer.status_code for answer in answers} == {429, 503}
        assert client.get("/v1/jobs").status_code == 200
        for answer in answers:
            problem(answer, *((429, "too-many-requests") if answer.status_code == 429 else (503, "no-leader")))
        assert len(other.seen) <= 3 * MOST_AT_ONCE


WRONG = {
    "b=http://x": "--cell-addresses needs --cell",
    "b=ftp://x": "no http or https URL",
    "b=http://u:p@x": "or has a user in it",
    "b": "NAME=ADDRESS,ADDRESS",
    "@/nowhere/to/be/found": "cannot read /nowhere/to/be/found",
}


@pytest.mark.parametrize(("given", "why"), WRONG.items())
def test_wrong_settings_are_refused_at_the_start(tmp_path: Path, given: str, why: str) -> None:
    own = () if "needs" in why else ("--cell", "a", *CELLS)
    with ServerProcess(tmp_path, *own, "--cell-addresses", given) as server:
        assert server.start(until=None).wait() == 2
        assert why in server.logged()
        assert "u:p" not in server.logged()
