"""Listings of handles and of stores, a page at a time."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from tests.wire.support.api import Api, problem, unique

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


# -- GET /v1/stores ----------------------------------------------------------------------------------------------------


def test_stores_tell_handles_revision_and_epoch(api: Api) -> None:
    epoch = api.granted()
    last = [api.under(epoch).add(name) for name in "abc"][-1]
    (row,) = [row for row in api.http.get("/v1/stores").json()["stores"] if row["store"] == api.store]
    assert row == {"store": api.store, "handles": 3, "revision": int(last.headers["milepost-revision"]), "epoch": epoch}


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


@pytest.mark.parametrize("path", ["/v1/stores", "/v1/stores/s/handles"])
def test_a_parameter_that_stands_twice_is_refused(http: httpx.Client, path: str) -> None:
    problem(http.get(f"{path}?limit=5&limit=7"), 422, "invalid-request")
