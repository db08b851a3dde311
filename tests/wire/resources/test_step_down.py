"""``POST /v1/step-down`` over real replicas: the leader lets another lead, and says so once it leads no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, connect, problem, until
from tests.wire.support.shapes import example_of, same_shape

TOKEN = "writer-token-0123456789"
READER = "reader-token-0123456789"
BEARING = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    """Two replicas of one deployment with tokens; the first leads to begin with."""
    directory = tmp_path_factory.mktemp("step-down")
    (directory / "tokens").write_text(f"writer {TOKEN}\nreader {READER} read-only\n")
    flags = ("--token-file", str(directory / "tokens"), "--epochs-above", "7")
    with ServerProcess(directory, *flags) as first:
        first.start()
        (directory / "second").mkdir()
        with ServerProcess(directory / "second", *flags, pointers=first.pointers, blobs=first.blobs) as second:
            second.start(until="/readyz")
            yield [first, second]


def test_the_leader_lets_another_lead_and_follows(replicas: list[ServerProcess]) -> None:
    with connect(replicas[0].url) as one, connect(replicas[1].url) as other:
        for http in (one, other):
            http.headers.update(BEARING)
        api = Api.on(one, "kept")
        added = api.added("a")
        status = one.get("/v1/status").json()
        sent_on = other.post("/v1/step-down", json={"term": status["term"]})
        assert (sent_on.status_code, sent_on.headers["location"]) == (307, f"{replicas[0].url}/v1/step-down")
        answer = one.post("/v1/step-down", json={"term": status["term"]})
        assert (answer.status_code, answer.json()) == (200, {"replica": status["replica"], "term": status["term"]})
        same_shape(example_of(one.get("/openapi.json").json(), "POST", "/v1/step-down", 200), answer.json(), "answer")
        until(lambda: other.get("/leader").status_code == 200, "the other leads")
        assert replace(api, http=other).get("a").json() == added
        until(lambda: one.get("/readyz").status_code == 200, "the first redirects")
        stale = other.post("/v1/step-down", json={"term": status["term"]})
        assert problem(stale, 409, "fenced")["current"] > status["term"]
        assert other.get("/leader").status_code == 200


@pytest.mark.parametrize("body", [{"term": 0}, {"term": "1"}, {"term": 1.5}, {"replica": "a"}, [1]])
def test_what_is_no_term_is_refused(replicas: list[ServerProcess], body: object) -> None:
    with connect(_leader(replicas).url) as http:
        problem(http.post("/v1/step-down", json=body, headers=BEARING), 422, "invalid-request")
        assert http.get("/leader").status_code == 200


def test_only_who_may_write_may_ask_for_it(replicas: list[ServerProcess]) -> None:
    with connect(_leader(replicas).url) as http:
        problem(http.post("/v1/step-down"), 401, "unauthenticated")
        problem(http.post("/v1/step-down", headers={"Authorization": f"Bearer {READER}"}), 403, "forbidden")
        assert http.get("/leader").status_code == 200


def test_the_status_says_above_which_number_epochs_are_granted(replicas: list[ServerProcess]) -> None:
    for server in replicas:
        with connect(server.url) as http:
            assert http.get("/v1/status", headers=BEARING).json()["epochs_above"] == 7


def _leader(replicas: list[ServerProcess]) -> ServerProcess:
    for server in replicas:
        with connect(server.url) as http:
            if http.get("/leader").status_code == 200:
                return server
    raise AssertionError("nobody leads")
