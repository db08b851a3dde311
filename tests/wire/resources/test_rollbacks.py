"""A rollback of files that replaces the state of a handle in the same commit: both are done, or neither."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from milepost_backends.contract import Refusal, StorageUnavailable
from milepost_server.http.connection.connections import Connections
from testbed.server import DEADLINE_SECONDS
from tests.support.network.faults import refuse
from tests.support.servers.replicas import PROMPT
from tests.wire.support.api import Api, Json, problem, until
from tests.wire.support.in_process import InProcess, in_process

BELOW = 100
MOST = 256 * 1024
SMALL, LARGE = b"small", bytes(number % 251 for number in range(MOST))


@dataclass
class Job:
    """Two batches of files, and the handle ``job``, which says the newest."""

    here: InProcess
    api: Api
    revision: int

    @classmethod
    def on(cls, here: InProcess) -> Job:
        api = Api.on(here.http, "flights")
        api = api.under(api.granted())
        api.added("job", b"batch 1", Milepost_Label_batch="1")
        for batch in range(2):
            assert api.call("PUT", f"/files/checkpoint/commits/{batch}", content=b"v1").status_code == 201
        return cls(here, api, api.call("GET", "/tree").json()["snapshots"][0]["revision"])

    @property
    def version(self) -> str:
        version: str = self.api.get("job").json()["version"]
        return version

    def roll_back(self, content: bytes = LARGE, *, api: Api | None = None, **members: object) -> httpx.Response:
        return self.send({"name": "job", "version": self.version, "state": base64(content), **members}, api=api)

    def send(self, member: object, *, api: Api | None = None) -> httpx.Response:
        return (api or self.api).call("POST", "/tree/rollback", json={"revision": self.revision, "replace": member})

    def seen(self) -> tuple[Json, bytes, Json, bool]:
        """All that a rollback may change."""
        latest = self.api.call("HEAD", "/files/checkpoint/commits/1").status_code == 200
        return self.api.get("job").json(), self.api.state("job").content, self.api.call("GET", "/tree").json(), latest

    def put(self) -> list[str]:
        """The keys of all blobs that were put for the store."""
        return [key for key in self.here.rig.blobs.put_keys if "/flights/" in key]

    def blobs(self) -> set[str]:
        """The keys of those blobs that are still there."""
        return set(self.put()) - set(self.here.rig.blobs.discarded)


def base64(state: bytes) -> str:
    return b64encode(state).decode()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with in_process(tmp_path, replace(PROMPT, inline_below=BELOW)) as here:
        yield Job.on(here)


def test_both_go_back_and_a_retry_changes_nothing(job: Job) -> None:
    first, keyed = job.version, job.api.keyed("k", 1)
    done = job.roll_back(SMALL, api=keyed)
    assert done.status_code == 200, done.text
    record, state, _, latest = job.seen()
    assert done.json() == {"revision": job.revision, "version": record["version"]}
    assert (state, latest, record["labels"], job.blobs()) == (SMALL, False, {"batch": "1"}, set())
    assert record["version"] != first
    before, again = job.seen(), job.roll_back(SMALL, api=job.api.keyed("k", 2), version=first)
    assert (again.json(), again.headers["milepost-replayed"]) == (done.json(), "true")
    problem(job.roll_back(b"other", api=job.api.keyed("k", 2), version=first), 422, "idempotency-mismatch")
    assert job.seen() == before

    second = record["version"]
    done = job.roll_back(LARGE, api=job.api.keyed("l", 1), labels={"batch": "0"})
    record, state, _, _ = job.seen()
    assert (state, record["size"], record["labels"]) == (LARGE, MOST, {"batch": "0"})
    (blob,) = job.blobs()
    again = job.roll_back(LARGE, api=job.api.keyed("l", 2), version=second)
    assert (again.json(), again.headers["milepost-replayed"]) == (done.json(), "true")
    until(lambda: job.blobs() == {blob}, "the blob of the retry goes")
    assert job.api.state("job").content == LARGE
    assert job.roll_back(SMALL).status_code == 200
    until(lambda: job.blobs() == set(), "the replaced blob goes")


def test_if_one_half_is_refused_nothing_changes_and_no_blob_is_left(job: Job) -> None:
    before, other = job.seen(), job.api.other().under(job.api.epoch)
    mismatch = problem(job.roll_back(version="5f0c1e9ab3d2.1"), 412, "version-mismatch")
    assert mismatch["current"] == job.version
    problem(job.roll_back(name="other"), 404, "not-exist")
    problem(job.roll_back(api=other), 409, "not-locked")
    problem(job.roll_back(api=job.api.under(7)), 409, "fenced")
    problem(replace(job, revision=1).roll_back(), 404, "not-exist")
    assert len(job.put()) == 5
    assert (job.seen(), job.blobs()) == (before, set())


@pytest.mark.parametrize("reason", [Refusal.FULL, Refusal.TOO_LARGE, Refusal.FAILED])
def test_a_commit_that_the_pointers_refuse_leaves_no_blob(job: Job, reason: Refusal) -> None:
    before = job.seen()
    job.here.rig.pointers.disturb(refuse(reason))
    answer = job.roll_back()
    code, status = {
        Refusal.FULL: ("storage-full", 507),
        Refusal.TOO_LARGE: ("too-large", 413),
        Refusal.FAILED: ("storage-unavailable", 503),
    }[reason]
    problem(answer, status, code)
    assert (job.seen(), job.blobs(), len(job.put())) == (before, set(), 1)


def test_blobs_that_are_away_stop_both_and_leave_small_states_alone(job: Job) -> None:
    before = job.seen()
    job.here.rig.blobs.puts.from_now_on(StorageUnavailable("away"))
    problem(job.roll_back(), 503, "storage-unavailable")
    assert job.seen() == before
    assert job.roll_back(SMALL).status_code == 200


def test_what_is_wrong_with_the_member_is_said_before_anything_is_written(job: Job) -> None:
    before, revision = job.seen(), job.api.revision()
    detail = problem(job.roll_back(bytes(MOST + 1)), 413, "too-large")["detail"]
    assert str(MOST) in detail
    problem(job.roll_back(bytes(2 * MOST)), 413, "too-large")
    for state in ("aGk", "a Gk=", "aGk=\n", "a-_=", "====", "aGl=", "\u00e9", None, 7):
        problem(job.roll_back(state=state), 422, "invalid-request")
    for labels in (None, {"B": "1"}, {"b": " 1"}, {"b": 1}):
        problem(job.roll_back(labels=labels), 422, "invalid-request")
    problem(job.roll_back(sha256=""), 422, "invalid-request")
    problem(job.roll_back(version=""), 422, "invalid-request")
    many = {f"l{number}": "" for number in range(33)}
    problem(job.roll_back(labels=many), 422, "invalid-request")
    problem(job.roll_back(name="a/b"), 422, "invalid-name")
    wrong: tuple[object, ...] = (None, [], "job", {"name": "job"})
    for member in wrong:
        problem(job.send(member), 422, "invalid-request")
    twice = b'{"revision": 1, "replace": {"name": "job", "name": "job", "version": "v", "state": ""}}'
    headers = {"Content-Type": "application/json"}
    problem(job.api.call("POST", "/tree/rollback", content=twice, headers=headers), 422, "invalid-request")
    assert (job.seen(), job.api.revision(), job.put()) == (before, revision, [])


def test_the_bytes_of_a_rollback_count_until_it_is_answered(tmp_path: Path) -> None:
    connections = Connections()
    with in_process(tmp_path, connections=connections) as here, ThreadPoolExecutor(1) as threads:
        job = Job.on(here)
        with here.held_commit() as begun:
            sent = threads.submit(job.roll_back)
            begun()
            assert len(connections.bodies) == 1
        assert sent.result(DEADLINE_SECONDS).status_code == 200
        until(lambda: len(connections.bodies) == 0, "the body is over")
