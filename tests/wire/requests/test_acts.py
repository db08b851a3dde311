"""``Milepost-Act``: what a replace does to the job, which the history then says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, problem
from tests.wire.support.unchanged import nothing_changed

EXPIRED = {"kind": "expired", "batch": 4, "previous_batch": 1}


def stating(api: Api, act: Any) -> Api:
    return api.with_headers({"Milepost-Act": act if isinstance(act, str) else json.dumps(act)})


def acts(api: Api) -> list[dict[str, Any]]:
    entries = api.http.get(f"/v1/jobs/{api.store}/history").json()["entries"]
    return [each for each in entries if not each["kind"].startswith("epoch-")]


def test_it_is_in_the_history_with_who_did_it(api: Api) -> None:
    led = api.under(api.granted())
    version = led.added("job")["version"]
    replaced = stating(led, {**EXPIRED, "later": "member"}).replace("job", version)
    assert replaced.status_code == 200, replaced.text
    (entry,) = acts(led)
    assert entry == {
        **EXPIRED,
        "at": replaced.json()["updated"],
        "revision": entry["revision"],
        "id": str(entry["revision"]),
        "epoch": led.epoch,
        "session": led.session,
        **({"holder": entry["holder"]} if "holder" in entry else {}),
    }


def test_a_kind_that_the_service_does_not_know_changes_the_state_and_enters_nothing(api: Api) -> None:
    led = api.under(api.granted())
    version = led.added("job")["version"]
    assert stating(led, {"kind": "frozen"}).replace("job", version).status_code == 200
    assert acts(led) == []


WRONG: dict[str, Any] = {
    "no JSON": "{",
    "a list": [EXPIRED],
    "no kind": {"batch": 4},
    "a number below 0": {**EXPIRED, "batch": -1},
    "no whole number": {**EXPIRED, "batch": 1.5},
    "a flag": {**EXPIRED, "batch": True},
    "a number of 19 digits": {**EXPIRED, "batch": 10**18},
    "much": {**EXPIRED, "note": "x" * 1000},
}


@pytest.mark.parametrize("act", WRONG.values(), ids=WRONG)
def test_what_is_no_act_is_refused(api: Api, server: ServerProcess, act: Any) -> None:
    led = api.under(api.granted())
    version = led.added("job")["version"]
    with nothing_changed(led, server):
        problem(stating(led, act).replace("job", version), 422, "invalid-request")


def test_without_an_epoch_it_is_refused(api: Api, server: ServerProcess) -> None:
    version = api.added("job")["version"]
    with nothing_changed(api, server):
        problem(stating(api, EXPIRED).replace("job", version), 422, "invalid-request")
