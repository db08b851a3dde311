"""The codes that tell of a storage in trouble, of too much at once, and of time gone by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from milepost_backends.contract import Refusal, StorageUnavailable
from milepost_server.journal import JournalSettings
from milepost_server.replica.leader_locator import LeaderLocator
from testbed.server import DEADLINE_SECONDS, ServerProcess
from tests.support.network.faults import refuse
from tests.support.servers.replicas import PROMPT
from tests.wire.support.api import Api, connect, problem
from tests.wire.support.damage import database, pointers_away, unreachable
from tests.wire.support.in_process import in_process

# -- the running server ------------------------------------------------------------------------------------------------


def test_a_database_that_cannot_be_reached_is_unavailable_to_writes_until_it_can(
    api: Api, server: ServerProcess
) -> None:
    api.added("a", b"old")
    before = api.everything()
    with unreachable(database(server)):
        assert problem(api.add("b"), 503, "storage-unavailable")["retryable"] is True
        assert api.state("a").content == b"old"
        assert api.http.get("/livez").status_code == 200
        assert api.http.get("/readyz").status_code == 503
        assert "[-] pointers" in api.http.get("/readyz?verbose").text
    server.wait_for("/readyz")
    assert api.everything()["handles"] == before["handles"]
    assert api.add("b").status_code == 201


def test_a_database_that_is_taken_away_is_made_anew_and_outlasts_the_old_one(api: Api, server: ServerProcess) -> None:
    """Nothing that was acknowledged meanwhile is lost when somebody puts the old one back over the new one."""
    api.added("a", b"old")
    with pointers_away(server):
        assert api.add("b").status_code == 201
        assert api.state("a").content == b"old"
    assert api.add("c").status_code == 201
    server.wait_for("/readyz")
    server.kill()
    with connect(server.start().url) as http:
        handles = replace(api, http=http).handles().json()["handles"]
    assert [handle["name"] for handle in handles] == ["a", "b", "c"]


# -- the same application in this process, with other settings ---------------------------------------------------------

HASTY_SECONDS = 0.3
"""Only while a fault lasts: real storage takes as long as it takes."""


def test_a_write_that_is_not_confirmed_in_time_is_of_unknown_outcome(tmp_path: Path) -> None:
    """The commit waits before it reaches the database; only the patience is shorter than usual (20 s)."""
    with in_process(tmp_path) as here:
        api = Api.on(here.http, "s").keyed("k")
        with here.held_commit(), ThreadPoolExecutor(1) as threads:
            here.rig.replica.submitter.request_seconds = HASTY_SECONDS
            sent = threads.submit(api.add, "a")
            document = problem(sent.result(DEADLINE_SECONDS), 503, "outcome-unknown", outcome="unknown")
            assert document["retryable"] is True
            late = problem(api.with_headers({"Idempotency-Key": "k2"}).add("b"), 503, "storage-unavailable")
            assert late["retryable"] is True
        here.rig.replica.submitter.request_seconds = PROMPT.request_seconds
        again = api.with_headers({"Milepost-Attempt": "2"}).add("a")
        assert (again.status_code, again.headers["milepost-replayed"]) == (201, "true")
        assert api.exists("b").status_code == 404


def test_more_than_may_wait_is_too_many(tmp_path: Path) -> None:
    """The commit waits before it reaches the database; only the queue is shorter than usual (10,000)."""
    few = replace(PROMPT, journal=JournalSettings(most_waiting=2))
    with in_process(tmp_path, few) as here, ThreadPoolExecutor(6) as threads:
        api = Api.on(here.http, "s")
        with here.held_commit() as begun:
            first = threads.submit(api.add, "first")
            begun()
            sent = [threads.submit(api.add, f"a{number}") for number in range(5)]
            for refused in islice(as_completed(sent, DEADLINE_SECONDS), 5 - 2):
                assert problem(refused.result(), 429, "too-many-requests")["retryable"] is True
        statuses = [each.result(DEADLINE_SECONDS).status_code for each in (first, *sent)]
        assert sorted(statuses) == [201] * 3 + [429] * 3
        assert len(api.handles().json()["handles"]) == 3


def test_an_ended_session_is_gone_for_an_hour_and_unknown_thereafter(tmp_path: Path) -> None:
    """The clock is moved on instead of waiting."""
    with in_process(tmp_path) as here:
        body = {"ttl": 600, "holder": "h", "session": "reused"}
        assert here.http.post("/v1/sessions", json=body).status_code == 201
        api = Api(here.http, "s", "reused")
        api.added("a")
        assert here.http.delete("/v1/sessions/reused").status_code == 204
        here.rig.clock.advance(3590)
        problem(here.http.get("/v1/sessions/reused"), 410, "session-expired")
        problem(here.http.post("/v1/sessions", json=body), 410, "session-expired")
        here.rig.clock.advance(20)
        problem(here.http.get("/v1/sessions/reused"), 404, "session-unknown")
        problem(api.add("b"), 404, "session-unknown")
        assert here.http.post("/v1/sessions", json=body).status_code == 201
        assert api.get("a").json()["locks"] == []


def test_answers_to_keys_are_kept_ten_minutes(tmp_path: Path) -> None:
    """The clock is moved on instead of waiting. What is older goes with the next change."""
    with in_process(tmp_path) as here:
        api = Api.on(here.http, "s").keyed("k")
        first = api.add("a")
        here.rig.clock.advance(590)
        again = api.add("a")
        assert (again.json(), again.headers["milepost-replayed"]) == (first.json(), "true")
        here.rig.clock.advance(20)
        api.with_headers({"Idempotency-Key": "removal"}).remove("a")
        anew = api.add("a")
        assert (anew.status_code, "milepost-replayed" in anew.headers) == (201, False)
        assert anew.json()["version"] != first.json()["version"]


# -- faults that the real parts cannot be made to have; a wrapper around them has them ---------------------------------


def test_a_refusal_for_want_of_room(tmp_path: Path) -> None:
    with in_process(tmp_path) as here:
        api = Api.on(here.http, "s")
        here.rig.pointers.disturb(refuse(Refusal.FULL))
        problem(api.add("a"), 507, "storage-full")
        assert api.handles().json()["handles"] == []
        assert api.add("a").status_code == 201


def test_a_refusal_of_another_kind(tmp_path: Path) -> None:
    with in_process(tmp_path) as here:
        api = Api.on(here.http, "s")
        here.rig.pointers.disturb(refuse(Refusal.DENIED))
        problem(api.add("a"), 503, "storage-unavailable")
        here.rig.pointers.disturb(refuse(Refusal.TOO_LARGE))
        problem(api.add("a"), 413, "too-large")
        assert api.add("a").status_code == 201


def test_blobs_that_cannot_be_discarded_after_a_refusal_leave_the_refusal_as_it_is(tmp_path: Path) -> None:
    with in_process(tmp_path) as here:
        api = Api.on(here.http, "s")
        api.added("a")
        here.rig.blobs.deletes.from_now_on(StorageUnavailable("away"))
        problem(api.add("a"), 409, "already-exists")
        here.rig.blobs.deletes.heal()


def test_an_error_that_nobody_expects_is_internal_and_tells_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug is put in: there is none that a test could call upon."""

    def buggy(key: str) -> AsyncIterator[bytes]:
        raise ZeroDivisionError(f"secret of {key}")

    with in_process(tmp_path) as here:
        api = Api.on(here.http, "s")
        api.added("a")
        monkeypatch.setattr(here.rig.blobs, "get", buggy)
        response = api.with_headers({"X-Request-Id": "asked"}).state("a")
        problem(response, 500, "internal", outcome="unknown")
        assert "secret" not in response.text
        assert "ZeroDivisionError" not in response.text
        assert response.headers["x-request-id"] == "asked"
        monkeypatch.undo()
        assert api.state("a").status_code == 200


def test_a_leader_names_itself_although_its_last_look_at_the_election_found_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As right after a take-over: a look at the election is used for a moment."""

    async def stale(_: LeaderLocator) -> str:
        return "http://127.0.0.1:10"

    with in_process(tmp_path) as here:
        monkeypatch.setattr(LeaderLocator, "leader", stale)
        status = here.http.get("/v1/status").json()
        assert (status["role"], status["leader"]) == ("leader", str(here.http.base_url).rstrip("/"))
