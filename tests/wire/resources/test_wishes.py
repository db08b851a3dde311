"""``/v1/jobs/{store}/stop``, ``/hand-over`` and ``/start``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.wire.support.api import Api, problem


def asked(api: Api, what: str, **body: Any) -> httpx.Response:
    return api.http.post(f"/v1/jobs/{api.store}/{what}", json=body)


def test_a_stop_needs_no_session_and_a_waiting_standby_is_told_at_once(api: Api) -> None:
    driver = api.under(api.granted())
    standby = api.other("standby")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(standby.campaign, wait=60)
        while not api.http.get(f"/v1/jobs/{api.store}").json()["standbys"]:
            assert not waiting.done()
        stopping = asked(api, "stop", who="anna", reason="a release").json()
        assert (stopping["state"], stopping["session"]) == ("stopping", api.session)
        assert driver.current().json()["wish"] == stopping["wish"]
        driver.call("DELETE", "/epoch")
        told = problem(waiting.result(60), 409, "held")
    assert told["holder"] is None
    assert told["stopped"] == stopping["wish"]
    assert "stopped by anna" in told["detail"]
    allowed = standby.call("POST", "/epoch", json={"if_stopped": True}).json()
    assert allowed["epoch"] == 2
    standby.call("DELETE", "/epoch")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(standby.campaign, wait=60)
        while not api.http.get(f"/v1/jobs/{api.store}").json()["standbys"]:
            assert not waiting.done()
        assert asked(api, "start").json()["wish"] is None
        assert waiting.result(60).json()["epoch"] == 3


def test_a_hand_over_is_refused_if_no_driver_stands_by_unless_forced(api: Api) -> None:
    api.granted()
    problem(asked(api, "hand-over", epoch=1), 404, "not-exist")
    handed = asked(api, "hand-over", epoch=1, force=True).json()
    assert (handed["state"], handed["wish"]["kind"]) == ("led", "hand-over")
    problem(asked(api, "hand-over", epoch=2, force=True), 409, "fenced")
    problem(asked(api, "hand-over", epoch=1, to="driver-9"), 404, "not-exist")
    problem(asked(api, "hand-over", epoch=1, to="driver-9", force=True), 422, "invalid-request")
    problem(asked(api, "hand-over", to="driver-9"), 422, "invalid-request")


def test_a_repeated_request_is_answered_from_its_key(api: Api) -> None:
    api.granted()
    key = {"Idempotency-Key": f"stop-{api.store}"}
    first = api.http.post(f"/v1/jobs/{api.store}/stop", headers=key)
    again = api.http.post(f"/v1/jobs/{api.store}/stop", headers={**key, "Milepost-Attempt": "2"})
    assert again.json() == first.json()
    assert again.headers["Milepost-Replayed"] == "true"


def test_what_is_no_job_and_no_wish(api: Api) -> None:
    for what in ("stop", "hand-over", "start"):
        problem(asked(api, what), 404, "not-exist")
        problem(asked(api, what, who="a\nb"), 422, "invalid-request")
        problem(asked(api, what, reason="x" * 201), 422, "invalid-request")
        problem(asked(api, what, unknown=1), 422, "invalid-request")
    problem(asked(api, "hand-over", epoch=-1), 422, "invalid-request")
    problem(asked(api, "stop", savepoint="no/name"), 422, "invalid-name")
    api.granted()
    problem(asked(api, "stop", savepoint=""), 422, "invalid-name")
