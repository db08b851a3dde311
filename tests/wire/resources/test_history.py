"""``/v1/jobs/{store}/history``: pages, the newest entry first."""

from __future__ import annotations

from typing import Any

from tests.wire.support.api import Api, problem


def test_pages_go_on_behind_each_other_while_entries_are_added(api: Api) -> None:
    job = api.under(api.granted())
    for batch in range(5):
        assert job.call("PUT", f"/files/q/commits/{batch}", content=b"v1").status_code == 201
    path = f"/v1/jobs/{api.store}/history"
    found: list[Any] = []
    token: str | None = None
    while token is not None or not found:
        page = api.http.get(path, params={"limit": 2, **({"token": token} if token else {})}).json()
        assert (page["job"], page["corrupt"]) == (api.store, [])
        found += page["entries"]
        token = page["next"]
        assert job.call("PUT", f"/files/q/commits/{10 + len(found)}", content=b"v1").status_code == 201
    assert [each.get("batch") for each in found] == [4, 3, 2, 1, 0, None]
    assert found[-1].items() >= {"kind": "epoch-granted", "epoch": job.epoch, "session": api.session}.items()
    assert [each["revision"] for each in found] == sorted((each["revision"] for each in found), reverse=True)
    assert all("replay" not in each and each["snapshot"] == each["revision"] for each in found[:-1])


def test_what_is_no_history_and_no_token(api: Api) -> None:
    problem(api.http.get(f"/v1/jobs/{api.store}-never/history"), 404, "not-exist")
    api.added("a")
    path = f"/v1/jobs/{api.store}/history"
    assert api.http.get(path).json()["entries"] == []
    for query in ({"token": "eHg"}, {"token": "!"}, {"limit": "0"}, {"since": "1"}):
        problem(api.http.get(path, params=query), 422, "invalid-request")
