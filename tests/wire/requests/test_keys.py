"""``Idempotency-Key``: a retry with the same key and the same request gets the first answer again.

Scope: session and store; what is in between does not matter. ``Milepost-Replayed: true`` tells it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from testbed.server import DEADLINE_SECONDS
from tests.wire.support.api import Api, open_session, problem
from tests.wire.support.in_process import in_process


def replayed(response: httpx.Response) -> bool:
    return bool(response.headers.get("milepost-replayed") == "true")


def same(first: httpx.Response, again: httpx.Response) -> None:
    """The first answer again, marked as a replay."""
    assert again.status_code == first.status_code
    assert again.content == first.content
    assert again.headers.get("etag") == first.headers.get("etag")
    assert not replayed(first)
    assert replayed(again)


def test_add(api: Api) -> None:
    first = api.keyed("k").add("a")
    same(first, api.keyed("k", attempt=2).add("a"))
    assert len(api.handles().json()["handles"]) == 1
    problem(api.add("a"), 409, "already-exists")


def test_replace(api: Api) -> None:
    version = api.added("a")["version"]
    first = api.keyed("k").replace("a", version)
    same(first, api.keyed("k", attempt=2).replace("a", version))
    assert api.get("a").json() == first.json()


def test_remove(api: Api) -> None:
    api.added("a")
    same(api.keyed("k").remove("a"), api.keyed("k").remove("a"))
    assert api.exists("a").status_code == 404


def test_remove_that_others_prevent(api: Api) -> None:
    api.added("a")
    other = api.other()
    other.lock("a")
    first = api.keyed("k").remove("a")
    assert first.json() == {"removed": False, "locks": [other.session]}
    other.release("a")
    same(first, api.keyed("k").remove("a"))
    assert api.exists("a").status_code == 200


def test_lock_and_release(api: Api) -> None:
    api.added("a")
    other = api.other()
    same(other.keyed("lock").lock("a"), other.keyed("lock").lock("a"))
    same(other.keyed("release").release("a"), other.keyed("release").release("a"))
    assert api.get("a").json()["locks"] == [api.session]


def test_clear(api: Api) -> None:
    api.added("a")
    first = api.keyed("k").clear()
    assert first.json() == {"cleared": 1}
    api.added("b")
    same(first, api.keyed("k", attempt=2).clear())
    assert api.exists("b").status_code == 200


def test_lock_all_and_release_all(api: Api) -> None:
    api.added("a")
    other = api.other()
    same(other.keyed("lock").lock_all(), other.keyed("lock").lock_all())
    same(other.keyed("release").release_all(), other.keyed("release").release_all())
    assert api.get("a").json()["locks"] == [api.session]


def test_campaign_and_resign(api: Api) -> None:
    first = api.keyed("campaign").campaign()
    same(api.keyed("resign").resign(), api.keyed("resign").resign())
    same(first, api.keyed("campaign").campaign())
    assert api.current().json()["session"] is None
    assert api.granted() == first.json()["epoch"] + 1


def test_session(http: httpx.Client) -> None:
    body = {"ttl": 600, "holder": "keys", "session": f"keyed-{open_session(http, 600)}"}
    key = {"Idempotency-Key": "k"}
    same(http.post("/v1/sessions", json=body, headers=key), http.post("/v1/sessions", json=body, headers=key))
    path = f"/v1/sessions/{body['session']}"
    end = {"Idempotency-Key": "end"}
    same(http.delete(path, headers=end), http.delete(path, headers=end))


def test_the_first_answer_comes_again_after_other_operations_on_the_name(api: Api) -> None:
    first = api.keyed("first").add("a", b"one")
    version = first.json()["version"]
    replaced = api.keyed("second").replace("a", version, b"two")
    api.keyed("third").remove("a")
    api.keyed("fourth").add("a", b"four")
    same(first, api.keyed("first", attempt=2).add("a", b"one"))
    same(replaced, api.keyed("second", attempt=2).replace("a", version, b"two"))
    assert api.keyed("third").remove("a").json() == {"removed": True}
    assert api.state("a").content == b"four"


def test_the_first_answer_comes_again_after_a_clear(api: Api) -> None:
    first = api.keyed("k").add("a")
    api.clear()
    same(first, api.keyed("k", attempt=2).add("a"))
    assert api.handles().json()["handles"] == []


def test_a_refusal_is_not_kept(api: Api) -> None:
    problem(api.keyed("k").replace("a", "v"), 404, "not-exist")
    version = api.added("a")["version"]
    answer = api.keyed("k").replace("a", version)
    assert answer.status_code == 200
    assert not replayed(answer)


Act = Callable[[Api, str], httpx.Response]
OTHER_REQUESTS: dict[str, Act] = {
    "another name": lambda api, _: api.add("other"),
    "other bytes": lambda api, _: api.add("a", b"other"),
    "another method": lambda api, version: api.replace("a", version, b"state"),
    "another kind": lambda api, _: api.lock("a"),
    "removal": lambda api, _: api.remove("a"),
    "clear": lambda api, _: api.clear(),
    "campaign": lambda api, _: api.campaign(),
}


@pytest.mark.parametrize("act", OTHER_REQUESTS.values(), ids=OTHER_REQUESTS)
def test_a_key_of_another_request_is_refused(api: Api, act: Act) -> None:
    version = api.keyed("k").added("a")["version"]
    before = api.everything()
    problem(act(api.keyed("k"), version), 422, "idempotency-mismatch")
    assert api.everything() == before


def test_another_if_match_is_another_request(api: Api) -> None:
    version = api.added("a")["version"]
    newer = api.keyed("k").replace("a", version, b"same").json()["version"]
    problem(api.keyed("k").replace("a", newer, b"same"), 422, "idempotency-mismatch")
    assert api.get("a").json()["version"] == newer


def test_the_scope_is_session_and_store(api: Api) -> None:
    api.keyed("k").added("a")
    elsewhere = replace(api, store=f"{api.store}-2")
    assert not replayed(elsewhere.keyed("k").add("b", b"elsewhere"))
    assert not replayed(api.other().keyed("k").add("c", b"another session"))
    assert [record["name"] for record in api.handles().json()["handles"]] == ["a", "c"]


def test_a_retry_whose_first_answer_is_forgotten_is_not_applied_again(api: Api) -> None:
    """A record keeps 64 answers at most."""
    api.keyed("pushed-out").added("a")
    for number in range(32):
        assert api.keyed(f"release-{number}").release("a").status_code == 204
        assert api.keyed(f"lock-{number}").lock("a").status_code == 200
    retry = api.keyed("pushed-out", attempt=2)
    before = api.everything()
    problem(retry.add("a"), 409, "already-exists", outcome="unknown")
    assert problem(retry.remove("a"), 503, "outcome-unknown", outcome="unknown")["retryable"] is False
    assert api.everything() == before
    assert api.keyed("removal").remove("a").json() == {"removed": True}
    assert problem(retry.add("a"), 503, "outcome-unknown", outcome="unknown")["retryable"] is False
    assert api.exists("a").status_code == 404
    assert api.keyed("pushed-out").add("a").status_code == 201


def test_each_without_a_key_counts_by_itself(api: Api) -> None:
    assert api.add("a").status_code == 201
    problem(api.add("a"), 409, "already-exists")


def test_the_longest_and_oddest_key(api: Api) -> None:
    for number, key in enumerate(["k" * 64, '!"#$%&()*+,-./:;<=>?@[]^_`{|}~', "1"]):
        same(api.keyed(key).add(f"a{number}"), api.keyed(key).add(f"a{number}"))


@pytest.mark.parametrize("key", ["", "k" * 65, "a b", "a\tb", "käse".encode()])
def test_a_key_that_is_none_is_refused(api: Api, key: str | bytes) -> None:
    headers: Any = {"Milepost-Session": api.session, "Idempotency-Key": key}
    response = api.http.post(f"/v1/stores/{api.store}/handles/a", headers=headers, content=b"")
    problem(response, 422, "invalid-request")
    assert api.exists("a").status_code == 404


def test_a_retry_joins_the_attempt_that_still_runs(tmp_path: Path) -> None:
    with in_process(tmp_path) as here, ThreadPoolExecutor(2) as threads:
        api = Api.on(here.http, "s")
        with here.held_commit() as begun:
            running = [threads.submit(api.keyed("k", attempt=number).add, "a") for number in (1, 2)]
            begun()
            assert not wait(running, timeout=0.3).done
        answers = [attempt.result(DEADLINE_SECONDS) for attempt in running]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert sorted(replayed(answer) for answer in answers) == [False, True]


def test_another_request_under_the_key_of_one_that_still_runs_is_refused(tmp_path: Path) -> None:
    with in_process(tmp_path) as here, ThreadPoolExecutor(1) as threads:
        api = Api.on(here.http, "s").keyed("k")
        with here.held_commit() as begun:
            running = threads.submit(api.add, "a")
            begun()
            problem(api.lock("a"), 422, "idempotency-mismatch")
            assert not running.done()
        assert running.result(DEADLINE_SECONDS).status_code == 201
