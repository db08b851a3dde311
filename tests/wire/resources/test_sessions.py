"""``/v1/sessions``: leases that act."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.wire.support.api import Api, open_session, problem, unique, until
from tests.wire.support.in_process import in_process


def test_created(http: httpx.Client) -> None:
    response = http.post("/v1/sessions", json={"ttl": 900, "holder": "flights-driver"})
    assert response.status_code == 201
    created = response.json()
    assert created == {"session": created["session"], "ttl": 900, "holder": "flights-driver"}
    other = http.post("/v1/sessions", json={"ttl": 900, "holder": "flights-driver"}).json()
    assert other["session"] != created["session"]


def test_created_under_an_id_and_renewed_while_alive(http: httpx.Client) -> None:
    body = {"ttl": 900, "holder": "flights-driver", "session": unique("chosen")}
    assert http.post("/v1/sessions", json=body).status_code == 201
    renewed = http.post("/v1/sessions", json=body)
    assert renewed.status_code == 200
    assert renewed.json() == {"session": body["session"], "ttl": 900, "holder": "flights-driver"}
    longer = http.post("/v1/sessions", json={**body, "ttl": 3600})
    assert (longer.status_code, longer.json()["ttl"]) == (200, 3600)
    path = f"/v1/sessions/{body['session']}"
    assert 900 < http.get(path).json()["expires_in"] <= 3600
    shorter = http.post("/v1/sessions", json={**body, "ttl": 300})
    assert (shorter.status_code, shorter.json()["ttl"]) == (200, 300)
    assert http.get(path).json()["expires_in"] <= 300


@pytest.mark.parametrize(
    "process",
    [
        {"host": "h" * 256},
        {"application": "two\nlines"},
        {"pid": -1},
        {"pid": "4711"},
        {"ui": "javascript:alert(1)"},
        {"disk": "full"},
    ],
)
def test_a_process_that_cannot_be_described_so(http: httpx.Client, process: dict[str, object]) -> None:
    problem(http.post("/v1/sessions", json={"ttl": 900, "process": process}), 422, "invalid-request")


def test_a_retry_finds_the_session_that_the_first_attempt_opened(http: httpx.Client) -> None:
    """Also where the service chose the id."""
    headers = {"Idempotency-Key": unique("key")}
    body = {"ttl": 900, "holder": "flights-driver"}
    first = http.post("/v1/sessions", json=body, headers=headers)
    again = http.post("/v1/sessions", json=body, headers={**headers, "Milepost-Attempt": "2"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.json(), again.headers["Milepost-Replayed"]) == (first.json(), "true")
    other = http.post("/v1/sessions", json=body, headers={"Idempotency-Key": unique("key")})
    assert other.json()["session"] != first.json()["session"]


@pytest.mark.parametrize("ttl", [1, 1.5, 3600])
def test_ttl_that_is_allowed(http: httpx.Client, ttl: float) -> None:
    response = http.post("/v1/sessions", json={"ttl": ttl, "holder": "h"})
    assert (response.status_code, response.json()["ttl"]) == (201, ttl)
    http.delete(f"/v1/sessions/{response.json()['session']}")


def test_keepalive_renews(http: httpx.Client) -> None:
    session = open_session(http, 3600)
    first = http.get(f"/v1/sessions/{session}").json()["expires_in"]
    response = http.post(f"/v1/sessions/{session}/keepalive")
    assert response.status_code == 200
    assert response.json() == {"session": session, "ttl": 3600}
    until(lambda: 3600 - http.get(f"/v1/sessions/{session}").json()["expires_in"] > 0.05, "time passes")
    http.post(f"/v1/sessions/{session}/keepalive")
    assert 3600 - 60 < first <= 3600


def test_get_tells_what_is_left_and_the_locks_held(api: Api) -> None:
    elsewhere = replace(api, store=f"{api.store}-2")
    api.added("b")
    api.added("a")
    elsewhere.added("c")
    api.other().added("d")
    response = api.http.get(f"/v1/sessions/{api.session}")
    assert response.status_code == 200
    shown = response.json()
    assert (shown["session"], shown["ttl"], shown["holder"]) == (api.session, 3600, "test")
    assert 3600 - 60 < shown["expires_in"] <= 3600
    assert shown["locks"] == [
        {"store": api.store, "name": "a"},
        {"store": api.store, "name": "b"},
        {"store": elsewhere.store, "name": "c"},
    ]


def test_a_kept_alive_session_outlives_its_ttl(tmp_path: Path) -> None:
    """The clock is moved on instead of waiting."""
    with in_process(tmp_path) as here:
        session, left = open_session(here.http, 600), open_session(here.http, 600)
        for _ in range(3):
            here.rig.clock.advance(400)
            assert here.http.post(f"/v1/sessions/{session}/keepalive").status_code == 200
        assert here.http.get(f"/v1/sessions/{session}").status_code == 200
        until(lambda: here.http.get(f"/v1/sessions/{left}").status_code == 410, "the one that is not kept ends")


def test_ended_by_delete(api: Api) -> None:
    other = api.other()
    api.added("a")
    epoch = api.granted()
    path = f"/v1/sessions/{api.session}"
    ended = api.http.delete(path)
    assert ended.status_code == 204
    assert ended.content == b""
    problem(api.http.get(path), 410, "session-expired")
    problem(api.http.post(f"{path}/keepalive"), 410, "session-expired")
    problem(api.http.delete(path), 410, "session-expired")
    problem(api.lock("a"), 410, "session-expired")
    problem(api.campaign(), 410, "session-expired")
    assert other.get("a").json()["locks"] == []
    assert other.current().json() == {
        "epoch": epoch,
        "session": None,
        "holder": None,
        "since": None,
        "wish": None,
    }
    assert other.granted() == epoch + 1


def test_ended_by_time(tmp_path: Path) -> None:
    """The clock is moved on instead of waiting."""
    with in_process(tmp_path) as here:
        api = Api(here.http, "s", open_session(here.http, 600, "short"))
        api.added("a", b"stays")
        epoch = api.granted()
        other = api.other()
        here.rig.clock.advance(601)
        _ended_by_time(api, epoch, other)


def _ended_by_time(api: Api, epoch: int, other: Api) -> None:
    http = api.http
    until(lambda: http.get(f"/v1/sessions/{api.session}").status_code != 200, "the session ends")
    problem(http.get(f"/v1/sessions/{api.session}"), 410, "session-expired")
    problem(http.post(f"/v1/sessions/{api.session}/keepalive"), 410, "session-expired")
    before = other.everything()
    for response in (api.add("b"), api.under(epoch).add("b"), api.lock("a"), api.release("a"), api.release_all()):
        problem(response, 410, "session-expired")
    problem(
        http.post("/v1/sessions", json={"ttl": 5, "holder": "again", "session": api.session}), 410, "session-expired"
    )
    assert other.everything() == before
    assert other.get("a").json()["locks"] == []
    assert other.state("a").content == b"stays"
    assert other.granted() == epoch + 1


def test_never_seen(api: Api) -> None:
    path = "/v1/sessions/never-seen"
    problem(api.http.get(path), 404, "session-unknown")
    problem(api.http.delete(path), 404, "session-unknown")
    problem(api.http.post(f"{path}/keepalive"), 404, "session-unknown")
    before = api.everything()
    problem(replace(api, session="never-seen").add("a"), 404, "session-unknown")
    problem(replace(api, session="never-seen").campaign(), 404, "session-unknown")
    assert api.everything() == before


def test_an_expiring_session_of_another_does_not_hold_a_handle(tmp_path: Path) -> None:
    """The clock is moved on instead of waiting."""
    with in_process(tmp_path) as here:
        api = Api.on(here.http, "s")
        api.added("a")
        short = replace(api, session=open_session(here.http, 600))
        short.lock("a")
        assert api.remove("a").json() == {"removed": False, "locks": [short.session]}
        here.rig.clock.advance(601)
        until(lambda: api.get("a").json()["locks"] == [], "the lock goes")
        assert api.remove("a").json() == {"removed": True}
