"""``/v1/stores/{store}/instances``: which executor has which state store loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.wire.support.api import Api, Json, problem

RUN = "run-1"


def one(partition: int, run: str = RUN, **more: Any) -> Json:
    return {"run": run, "operator": 0, "partition": partition, "name": "default", **more}


def some(*partitions: int) -> list[Json]:
    return [one(partition) for partition in partitions]


def here(executor: str) -> Json:
    return {"host": f"host-{executor}", "executor": executor}


@pytest.fixture
def driver(api: Api) -> Api:
    """Whoever acts under the epoch; executors have no session."""
    return replace(api, session=None, epoch=api.granted())


def post(api: Api, path: str, body: Any) -> httpx.Response:
    return api.call("POST", f"/instances{path}", json=body)


def report(api: Api, executor: str, *partitions: int, others: tuple[int, ...] = ()) -> Json:
    body = {**here(executor), "loaded": some(*partitions), "others": some(*others)}
    response = post(api, "", body)
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


def located(api: Api, *partitions: int) -> dict[int, str]:
    response = post(api, "/locations", {"instances": some(*partitions)})
    assert response.status_code == 200, response.text
    return {entry["partition"]: entry["executor"] for entry in response.json()["locations"]}


def test_a_report_moves_an_instance_and_names_what_others_have(driver: Api) -> None:
    first = report(driver, "1", 0, 1, 2)
    assert first["unload"] == []
    assert report(driver, "2", 1)["unload"] == []
    answer = report(driver, "1", 3, others=(0, 1, 2, 7))
    assert answer == {"record": first["record"], "unload": some(1)}
    assert located(driver, 0, 1, 2, 3, 7) == {0: "1", 1: "2", 2: "1", 3: "1"}


def test_locations_say_host_snapshot_and_age(driver: Api) -> None:
    report(driver, "1", 0)
    assert post(driver, "/snapshots", {"snapshots": [one(0, version=7), one(9, version=7)]}).status_code == 204
    (entry,) = post(driver, "/locations", {"instances": some(0, 9)}).json()["locations"]
    assert entry == {**one(0), **here("1"), "snapshot": 7, "age": entry["age"]}
    assert 0 <= entry["age"] < 60


def test_what_is_not_the_executors_is_not_active(driver: Api) -> None:
    record = report(driver, "1", 0, 1)["record"]
    report(driver, "2", 1)
    answer = post(driver, "/verification", {**here("1"), "record": record, "instances": some(0, 1, 2)})
    assert answer.json() == {"record": record, "active": some(0)}
    assert located(driver, 0, 1, 2) == {0: "1", 1: "2"}


def test_what_was_forgotten_is_the_executors_again(driver: Api) -> None:
    """It shows another record, as after a change of leader; what somebody else reported meanwhile stays there."""
    report(driver, "2", 1)
    answer = post(driver, "/verification", {**here("1"), "record": "an earlier one", "instances": some(0, 1, 2)})
    assert answer.json()["active"] == some(0, 2)
    assert located(driver, 0, 1, 2) == {0: "1", 1: "2", 2: "1"}


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"executor": "1"}, {1}),
        ({"run": RUN}, set()),
        ({"run": "another"}, {0, 1, 2}),
        ({"instances": some(0, 1, 5)}, {2}),
        ({"instances": some(0, 1), "executor": "2"}, {0, 2}),
        ({}, set()),
    ],
)
def test_a_deactivation_ends_what_it_names(driver: Api, body: Json, left: set[int]) -> None:
    record = report(driver, "1", 0, 2)["record"]
    report(driver, "2", 1)
    post(driver, "", {**here("1"), "loaded": [one(0, "other-run")]})
    answer = post(driver, "/deactivation", body)
    assert answer.status_code == 200
    others_left = 0 if body in ({}, {"executor": "1"}) else 1
    assert answer.json() == {"deactivated": 4 - len(left) - others_left}
    assert set(located(driver, 0, 1, 2)) == left
    assert report(driver, "3")["record"] == record  # so nobody takes what was ended for forgotten


def test_a_deactivation_without_a_body_ends_all(driver: Api) -> None:
    report(driver, "1", 0, 1)
    assert driver.call("POST", "/instances/deactivation").json() == {"deactivated": 2}


def test_all_in_pages(driver: Api) -> None:
    report(driver, "1", *range(25))
    found, token = [], None
    for _ in range(3):
        query = {"limit": "10", **({"token": token} if token else {})}
        page = driver.call("GET", "/instances", params=query).json()
        found += [entry["partition"] for entry in page["instances"]]
        token = page["next"]
    assert (found, token) == (list(range(25)), None)
    for bad in ("bm9uc2Vuc2U", "%%%", "YS8xLzI"):
        problem(driver.call("GET", "/instances", params={"token": bad}), 422, "invalid-request")


def test_those_that_lag_most_come_first(driver: Api) -> None:
    report(driver, "1", 0, 1, 2, 3)
    made = [one(0, version=90), one(1, version=40), one(2, version=10)]
    assert post(driver, "/snapshots", {"snapshots": made}).status_code == 204
    query = {"run": RUN, "version": "100", "versions": "50"}
    answer = driver.call("GET", "/instances/lagging", params=query).json()
    assert (answer["count"], [entry["partition"] for entry in answer["lagging"]]) == (3, [3, 2, 1])
    answer = driver.call("GET", "/instances/lagging", params={**query, "limit": "1"}).json()
    assert (answer["count"], [entry["partition"] for entry in answer["lagging"]]) == (3, [3])
    answer = driver.call("GET", "/instances/lagging", params={**query, "seconds": "3000.5"}).json()
    assert answer == {"count": 0, "lagging": []}
    answer = driver.call("GET", "/instances/lagging", params={**query, "run": "another"}).json()
    assert answer == {"count": 0, "lagging": []}
    for wrong in ({"version": "x"}, {"seconds": "nan"}, {"seconds": "-1"}, {"versions": ""}, {"more": "1"}):
        problem(driver.call("GET", "/instances/lagging", params={**query, **wrong}), 422, "invalid-request")


NOTING = [
    ("", {**here("1"), "loaded": []}),
    ("/verification", {**here("1"), "instances": []}),
    ("/snapshots", {"snapshots": []}),
    ("/deactivation", {}),
]


@pytest.mark.parametrize(("path", "body"), NOTING)
def test_only_under_the_current_epoch(driver: Api, path: str, body: Json) -> None:
    report(driver, "1", 0)
    assert driver.epoch is not None
    for epoch in (None, driver.epoch - 1 or driver.epoch + 2, driver.epoch + 1):
        document = problem(post(replace(driver, epoch=epoch), path, body), 409, "fenced")
        assert document["current"] == driver.epoch
    assert located(driver, 0) == {0: "1"}


def test_a_new_epoch_forgets_what_the_older_one_reported(api: Api) -> None:
    old = replace(api, epoch=api.granted())
    record = report(old, "1", 0)["record"]
    assert api.call("DELETE", "/epoch").status_code == 204
    assert located(old, 0) == {0: "1"}  # the number is current until the next is granted
    new = replace(api.other(), epoch=old.epoch and old.epoch + 1)
    assert new.campaign().json()["epoch"] == new.epoch
    assert located(new, 0) == {}
    problem(post(old, "", {**here("1"), "loaded": some(0)}), 409, "fenced")
    assert report(new, "1", 0)["record"] != record


def test_a_store_without_an_epoch_needs_none(api: Api) -> None:
    anybody = replace(api, session=None)
    report(anybody, "1", 0)
    assert located(anybody, 0) == {0: "1"}
    assert anybody.call("GET", "/handles").json()["handles"] == []


def test_it_writes_nothing(driver: Api) -> None:
    before = driver.call("GET", "/epoch").headers["milepost-revision"]
    report(driver, "1", *range(50))
    assert post(driver, "/deactivation", {}).json() == {"deactivated": 50}
    assert driver.call("GET", "/epoch").headers["milepost-revision"] == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {**here("1")},
        {"host": "a b", "executor": "1", "loaded": []},
        {"host": "", "executor": "1", "loaded": []},
        {"host": "h", "executor": ".1", "loaded": []},
        {**here("1"), "loaded": [one(-1)]},
        {**here("1"), "loaded": [one(0, run="")]},
        {**here("1"), "loaded": [one(0, name="a/b")]},
        {**here("1"), "loaded": [one(0, more=1)]},
        {**here("1"), "loaded": some(*range(101))},
    ],
)
def test_bad_input(driver: Api, body: Json) -> None:
    problem(post(driver, "", body), 422, "invalid-request")
