"""``/v1/jobs/{store}/history``: pages, the newest entry first, and a history that is restored from a backup."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.wire import MAX_HISTORY_BYTES, MAX_HISTORY_ENTRIES
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


AT = "2026-01-01T12:00:00.000Z"
ASKED = {"kind": "stop-requested", "at": AT, "holder": "anna", "reason": "release"}


def restore(api: Api, *entries: Any, **members: Any) -> Any:
    body = {"saved": AT, "source": "other", "entries": entries, **members}
    return api.http.post(f"/v1/jobs/{api.store}/history", json=body, headers={"Milepost-Session": str(api.session)})


def test_a_history_is_restored_once_and_shown_as_restored(api: Api) -> None:
    batch = {"kind": "batch-committed", "at": AT, "batch": 7, "directory": "checkpoint", "input_rows": 5}
    assert restore(api, ASKED, batch).json() == {"entered": 2}
    problem(restore(api, ASKED, batch, saved="2026-01-02T00:00:00.000Z"), 409, "already-exists")
    path = f"/v1/jobs/{api.store}/history"
    said, *restored = api.http.get(path).json()["entries"]
    assert said.items() >= {"kind": "history-restored", "since": AT, "source": "other", "entries": 2}.items()
    assert (said["session"], "restored" in said) == (api.session, False)
    revision = said["revision"]
    assert restored == [
        {**batch, "revision": revision, "id": f"{revision}.1", "restored": True},
        {**ASKED, "revision": revision, "id": f"{revision}.0", "restored": True},
    ]


@pytest.mark.parametrize(
    ("member", "values"),
    [
        ("kind", ["", "unheard-of", 7, None]),
        ("at", ["", "yesterday", "2026-13-01T12:00:00.000Z", "2026-01-01T12:00:00Z", "2026-01-01T12:00:00.000Z\n", 7]),
        ("since", ["", "2026-02-30T12:00:00.000Z"]),
        ("holder", ["x" * 201, "a\nb", "\x1b[31m", 7]),
        ("by", ["x" * 401, "\x00"]),
        ("reason", ["x" * 201, "\r"]),
        ("source", ["x" * 501, "\t"]),
        ("directory", ["../x", "a//b", "x" * 5000, "\x7f"]),
        ("batch", [-1, 2**63, 1.5, "7"]),
        ("epoch", [1, -1, True]),
        ("replay", ["true", 1]),
        ("process", [{"pid": -1}, {"pid": 2**31}, {"host": "x" * 256}, {"ui": "javascript:x"}, {"more": 1}, []]),
        ("revision", [1]),
        ("snapshot", [1]),
        ("restored", [True]),
    ],
)
def test_an_entry_that_the_service_would_never_store_is_refused(api: Api, member: str, values: list[Any]) -> None:
    for value in values:
        problem(restore(api, ASKED, {**ASKED, member: value}), 422, "invalid-request")
    problem(api.http.get(f"/v1/jobs/{api.store}/history"), 404, "not-exist")


def test_a_history_that_is_too_large_or_of_another_form_is_refused(api: Api) -> None:
    for name in ("session", "savepoint"):
        problem(restore(api, {**ASKED, name: ".x"}), 422, "invalid-name")
    problem(restore(api, ASKED, source="a/b"), 422, "invalid-name")
    for wrong in (restore(api), restore(api, *[ASKED] * (MAX_HISTORY_ENTRIES + 1)), restore(api, ASKED, saved="2026")):
        problem(wrong, 422, "invalid-request")
    long = {**ASKED, "holder": "x" * 200, "by": "x" * 400}
    problem(restore(api, *[long] * (MAX_HISTORY_BYTES // 600)), 413, "too-large")
    path = f"/v1/jobs/{api.store}/history"
    problem(api.http.post(path, json={"saved": AT, "source": "x", "entries": [ASKED]}), 400, "session-required")
    text = {"Milepost-Session": str(api.session), "Content-Type": "text/plain"}
    problem(api.http.post(path, content=b"{}", headers=text), 415, "unsupported-media-type")
    problem(api.http.get(path), 404, "not-exist")
