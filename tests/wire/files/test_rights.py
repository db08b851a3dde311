"""Files and loaded state on a service with tokens: a reader reads, a writer writes, and a job's token opens what is
that job's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, connect, problem

WRITER, READER, OTHER = (f"{name}-token-0123456789" for name in ("writer", "reader", "other"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("rights")
    lines = f"driver {WRITER} writer=test_*\nlooker {READER} reader=test_*\nother {OTHER} writer=none-of-these\n"
    (directory / "tokens").write_text(lines)
    with ServerProcess(directory, "--token-file", str(directory / "tokens")) as server:
        yield server.start()


@pytest.fixture
def http(guarded: ServerProcess) -> Iterator[httpx.Client]:
    """Without a token of its own."""
    with connect(guarded.url) as client:
        yield client


@pytest.fixture
def driver(guarded: ServerProcess, store: str) -> Iterator[Api]:
    """Who holds the epoch, with a token that may write."""
    with connect(guarded.url) as client:
        client.headers["Authorization"] = f"Bearer {WRITER}"
        api = Api.on(client, store)
        yield api.under(api.granted())


def bearing(api: Api, http: httpx.Client, token: str | None) -> Api:
    """The same epoch, without a session, with another token."""
    extra = {} if token is None else {"Authorization": f"Bearer {token}"}
    return replace(api, http=http, session=None, extra=extra)


def token_of(api: Api, http: httpx.Client) -> str:
    """A token of the job under its present epoch, as an executor gets it."""
    told = api.call("POST", "/epoch/credentials").json()
    form = {"grant_type": "client_credentials", **{name: told[name] for name in ("client_id", "client_secret")}}
    answer = http.post(told["token_path"], data=form)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def every_call(api: Api) -> list[httpx.Response]:
    """One of each, the writes first."""
    return [
        api.call("PUT", "/files/new", content=b"x"),
        api.call("PUT", "/files/d", params={"directory": "true"}),
        api.call("DELETE", "/files/a"),
        api.call("GET", "/files/a"),
        api.call("GET", "/files"),
    ]


def test_who_has_no_right_sees_and_changes_nothing(driver: Api, http: httpx.Client) -> None:
    driver.call("PUT", "/files/a", content=b"v1")
    for answer in every_call(bearing(driver, http, None)):
        problem(answer, 401, "unauthenticated")
    for answer in every_call(bearing(driver, http, OTHER)):
        problem(answer, 403, "forbidden")
    assert [file["path"] for file in driver.call("GET", "/files").json()["files"]] == ["a"]


def test_a_refusal_of_a_retry_does_not_say_that_nothing_was_done(driver: Api, http: httpx.Client) -> None:
    """Its first attempt may have been made when it had the right."""
    for token, status, code in ((None, 401, "unauthenticated"), (READER, 403, "forbidden")):
        again = bearing(driver, http, token)
        again = replace(again, extra={**again.extra, "Idempotency-Key": "key", "Milepost-Attempt": "2"})
        problem(again.call("PUT", "/files/a", content=b"v1"), status, code, "unknown")
    job = bearing(driver, http, token_of(driver, http)).under(7)
    retried = {**job.extra, "Idempotency-Key": "key", "Milepost-Attempt": "2"}
    problem(replace(job, extra=retried).call("PUT", "/files/a", content=b"v1"), 403, "forbidden", "unknown")


def test_a_reader_reads_and_does_not_write(driver: Api, http: httpx.Client) -> None:
    driver.call("PUT", "/files/a", content=b"v1")
    put, made, deleted, read, listed = every_call(bearing(driver, http, READER))
    for refused in (put, made, deleted):
        problem(refused, 403, "forbidden")
    assert (read.content, [file["path"] for file in listed.json()["files"]]) == (b"v1", ["a"])


def test_a_job_writes_with_its_token_alone(driver: Api, http: httpx.Client) -> None:
    """The token says the epoch; a header may say it again, and no other."""
    job = bearing(driver, http, token_of(driver, http))
    for epoch in (None, driver.epoch):
        assert job.under(epoch).call("PUT", "/files/a", content=b"v1").status_code in (200, 201)
    assert job.call("HEAD", "/files/a").status_code == 200
    problem(job.under(7).call("PUT", "/files/a", content=b"v2"), 403, "forbidden")
    problem(job.call("GET", "/handles"), 403, "forbidden")
    problem(job.call("GET", "/tree"), 403, "forbidden")
    assert job.call("DELETE", "/files/a").status_code == 204


def test_the_token_of_another_job_opens_nothing(driver: Api, http: httpx.Client) -> None:
    other = Api.on(driver.http, f"{driver.store}-2")
    other = other.under(other.granted())
    other.call("PUT", "/files/a", content=b"secret")
    for answer in every_call(bearing(other, http, token_of(driver, http))):
        assert driver.store in problem(answer, 403, "forbidden")["detail"]
    assert bearing(other, http, token_of(driver, http)).call("HEAD", "/files/a").status_code == 403


def test_a_token_is_worth_no_more_than_its_epoch(driver: Api, http: httpx.Client) -> None:
    zombie = bearing(driver, http, token_of(driver, http))
    zombie.call("PUT", "/files/a", content=b"v1")
    driver.resign()
    new = driver.other()
    new = new.under(new.granted())
    for refused in (
        zombie.call("PUT", "/files/a", content=b"late"),
        zombie.under(None).call("PUT", "/files/b", content=b"x" * 100_000),
        zombie.call("DELETE", "/files/a"),
    ):
        assert problem(refused, 409, "fenced")["current"] == new.epoch
    problem(zombie.under(new.epoch).call("PUT", "/files/a", content=b"late"), 403, "forbidden")
    assert zombie.call("GET", "/files/a").content == b"v1"
