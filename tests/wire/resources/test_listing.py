"""Listings of handles and of stores, a page at a time."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from tests.wire.support.api import Api, Json, problem, unique

NAMES = sorted(["a", "a-1", "a.1", "a1", "B", "_", "b", "c"])


@pytest.fixture
def filled(api: Api) -> Api:
    """A store with a handle of each name."""
    for name in reversed(NAMES):
        api.added(name)
    return api


def test_by_name(filled: Api) -> None:
    response = filled.handles()
    assert response.status_code == 200
    assert [record["name"] for record in response.json()["handles"]] == NAMES
    assert response.json()["next"] is None


@pytest.mark.parametrize("limit", [1, 3, len(NAMES) - 1, len(NAMES), len(NAMES) + 1, 1000])
def test_paging_meets_each_once(filled: Api, limit: int) -> None:
    found: list[str] = []
    page = filled.handles(limit=limit).json()
    while page["next"] is not None:
        assert len(page["handles"]) == limit
        found += [record["name"] for record in page["handles"]]
        page = filled.handles(limit=limit, token=page["next"]).json()
    found += [record["name"] for record in page["handles"]]
    assert found == NAMES


def test_what_changes_between_pages_neither_hides_nor_doubles_the_rest(filled: Api) -> None:
    first = filled.handles(limit=3).json()
    seen = [record["name"] for record in first["handles"]]
    filled.remove(seen[0])
    filled.remove(seen[2])
    filled.added("0-comes-before")
    rest = filled.handles(token=first["next"]).json()
    assert seen + [record["name"] for record in rest["handles"]] == NAMES


def test_a_store_that_does_not_exist_gives_empty_answers(api: Api) -> None:
    nowhere = replace(api, store=unique("nowhere"))
    response = nowhere.handles()
    assert response.status_code == 200
    assert (response.json()["handles"], response.json()["next"]) == ([], None)
    assert nowhere.current().json()["epoch"] == 0
    assert nowhere.release_all().status_code == 204
    problem(nowhere.get("a"), 404, "not-exist")


REFUSED = {
    "limit 0": {"limit": "0"},
    "limit 1001": {"limit": "1001"},
    "limit negative": {"limit": "-1"},
    "limit no number": {"limit": "ten"},
    "limit empty": {"limit": ""},
    "limit fraction": {"limit": "1.5"},
    "limit huge": {"limit": "9" * 40},
    "token of nobody": {"token": "!!!"},
    "token cut": {"token": "YWJj=="},
    "token of other bytes": {"token": "_w"},
    "unknown parameter": {"page": "2"},
}


@pytest.mark.parametrize("params", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(filled: Api, params: dict[str, str]) -> None:
    problem(filled.handles(**params), 422, "invalid-request")
    problem(filled.http.get("/v1/stores", params=params), 422, "invalid-request")
    problem(filled.http.get("/v1/sessions", params=params), 422, "invalid-request")
    problem(filled.http.get("/v1/jobs", params=params), 422, "invalid-request")


# -- GET /v1/stores ----------------------------------------------------------------------------------------------------


def test_stores_tell_what_is_in_them_and_who_leads(api: Api) -> None:
    def told() -> Json:
        (row,) = [row for row in api.http.get("/v1/stores").json()["stores"] if row["store"] == api.store]
        return dict(row)

    epoch = api.granted()
    last = [api.under(epoch).add(name) for name in "abc"][-1]
    led = api.current().json()
    del led["wish"]
    assert told() == {
        "store": api.store,
        "handles": 3,
        "revision": int(last.headers["milepost-revision"]),
        **led,
        "snapshot": None,
        "damaged": 0,
    }
    path = f"/webhdfs/v1/jobs/{api.store}/checkpoint/commits/7?op=CREATE"
    fenced = {f"X-Milepost-{api.store}-{epoch}": ""}
    there = api.http.put(path, headers=fenced).headers["location"]
    assert api.http.put(there, headers=fenced, content=b"v1\n{}").status_code == 201
    (cut,) = api.call("GET", "/tree").json()["snapshots"]
    assert cut.pop("epoch") == epoch
    assert cut.pop("taken").endswith("Z")
    assert told()["snapshot"] == cut == {"directory": "checkpoint", "batch": 7, "revision": cut["revision"]}
    assert api.resign().status_code == 204
    left = told()
    assert (left["epoch"], left["session"], left["holder"], left["since"]) == (epoch, None, None, None)


def test_a_store_exists_from_its_first_change_on(api: Api, http: httpx.Client) -> None:
    def exists() -> bool:
        return api.store in [row["store"] for row in http.get("/v1/stores").json()["stores"]]

    api.handles()
    api.current()
    problem(api.lock("absent"), 404, "not-exist")
    api.release("absent")
    api.remove("absent")
    assert not exists()
    api.granted()
    assert exists()


def test_stores_page_by_name(api: Api, http: httpx.Client) -> None:
    for number in range(3):
        replace(api, store=f"{api.store}-{number}").added("a")
    everything = [row["store"] for row in http.get("/v1/stores").json()["stores"]]
    assert everything == sorted(everything)
    found: list[str] = []
    token: str | None = None
    while True:
        page = http.get("/v1/stores", params={"limit": 2} if token is None else {"limit": 2, "token": token}).json()
        assert len(page["stores"]) <= 2
        found += [row["store"] for row in page["stores"]]
        if (token := page["next"]) is None:
            break
    assert found == everything


@pytest.mark.parametrize("path", ["/v1/stores", "/v1/sessions", "/v1/stores/s/handles"])
def test_a_parameter_that_stands_twice_is_refused(http: httpx.Client, path: str) -> None:
    problem(http.get(f"{path}?limit=5&limit=7"), 422, "invalid-request")


# -- GET /v1/sessions --------------------------------------------------------------------------------------------------


def all_sessions(http: httpx.Client, limit: int) -> list[Json]:
    """What all pages of that size tell."""
    found: list[Json] = []
    token: str | None = None
    while True:
        page = http.get("/v1/sessions", params={"limit": limit, **({} if token is None else {"token": token})}).json()
        assert len(page["sessions"]) <= limit
        assert page["corrupt"] == []
        found += page["sessions"]
        if (token := page["next"]) is None:
            return found


def test_sessions_tell_what_each_holds_and_only_those_that_live(api: Api) -> None:
    ended, idle = api.other("ended"), api.other("idle")
    epoch = api.granted()
    for name in "ab":
        api.under(epoch).add(name)
    elsewhere = replace(api, store=f"{api.store}-2")
    elsewhere.added("c")
    elsewhere.lock_all()
    elsewhere.release("c")
    api.http.delete(f"/v1/sessions/{ended.session}")
    told = {row["session"]: row for row in all_sessions(api.http, 1000)}
    assert ended.session not in told
    left = told[str(api.session)].pop("expires_in")
    assert 3600 - 60 < left <= 3600
    assert told[str(api.session)] == {
        "session": api.session,
        "ttl": 3600,
        "holder": "test",
        "locks": 2,
        "locked_stores": 1,
        "epochs": [{"store": api.store, "epoch": epoch}],
        "more_epochs": False,
    }
    row = told[str(idle.session)]
    assert (row["holder"], row["locks"], row["locked_stores"], row["epochs"]) == ("idle", 0, 0, [])


def test_sessions_page_by_id(api: Api, http: httpx.Client) -> None:
    for _ in range(3):
        api.other()
    everybody = [row["session"] for row in all_sessions(http, 1000)]
    assert everybody == sorted(everybody)
    assert [row["session"] for row in all_sessions(http, 2)] == everybody


def test_a_session_with_many_epochs_tells_the_first_of_them(api: Api) -> None:
    leading = replace(api, session=api.other("leads much").session)
    for number in range(21):
        replace(leading, store=f"{api.store}-{number:02}").granted()
    (row,) = [row for row in all_sessions(api.http, 1000) if row["session"] == leading.session]
    assert [held["store"] for held in row["epochs"]] == [f"{api.store}-{number:02}" for number in range(20)]
    assert row["more_epochs"] is True
