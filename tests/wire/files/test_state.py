"""``/v1/stores/{store}/state/{state}``: keys of managed state that lies in the job's tree are looked up."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from milepost.job_record import JobRecord
from milepost.state.store import StateFiles, TreeFiles
from milepost.state.store.files.contract import FilesWithin
from testbed.server import ServerProcess
from tests.client.state.processors.test_task import Query
from tests.wire.support.api import Api, problem

JOB = "0a1b2c"


@dataclass
class InTree(Query):
    """The driver of a job whose state lies in its tree."""

    place: StateFiles | None = None

    @property
    def files(self) -> StateFiles:  # type: ignore[override]
        assert self.place is not None
        return FilesWithin(self.place, JOB)

    def record(self) -> bytes:
        return JobRecord(JOB, 1, published=0, authority="a", state={"words": self.published}).encode()


class Job:
    """A job with state, and its service."""

    def __init__(self, api: Api, query: InTree) -> None:
        self.api = api
        self.query = query
        self._version = ""

    def batch(self, partitions: int, words: dict[str, list[int]]) -> None:
        self.query.batch(partitions, words)
        self.publish(self.query.record())

    def publish(self, record: bytes) -> None:
        headers = {"Milepost-Epoch": str(self.api.epoch), "Content-Type": "application/octet-stream"}
        method = "PUT" if self._version else "POST"
        if self._version:
            headers["If-Match"] = self._version
        answer = self.api.call(method, "/handles/job", content=record, headers=headers)
        assert answer.status_code in (200, 201), answer.text
        self._version = answer.headers["etag"]

    def get(self, *key: Any, state: str = "words", **query: Any) -> httpx.Response:
        return self.api.call("GET", f"/state/{state}", params={"key": json.dumps(key), **query})

    def values(self, *key: Any, **query: Any) -> list[dict[str, Any]]:
        answer = self.get(*key, **query)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["values"]
        return found


@pytest.fixture
def job(api: Api, by_default: ServerProcess, tmp_path: Any) -> Iterator[Job]:
    epoch = api.granted()
    tree = TreeFiles(by_default.url, api.store, epoch)
    yield Job(Api(api.http, api.store, api.session, epoch), InTree(tmp_path, place=tree))
    tree.close()


def test_a_key_is_looked_up_as_it_was_published(job: Job) -> None:
    job.batch(3, {"JFK": [7, 7, 1], "EWR": [2]})
    job.batch(3, {"JFK": [7]})
    answer = job.get("JFK")
    assert answer.json() == {
        "state": "words",
        "version": 2,
        "values": [
            {"variable": "count", "value": {"n": 4}},
            *({"variable": "rows", "value": {"n": row}} for row in (7, 7, 1, 7)),
            {"variable": "seen", "entry": {"n": 1}, "value": {"times": 1}},
            {"variable": "seen", "entry": {"n": 7}, "value": {"times": 3}},
        ],
        "next": None,
    }
    assert job.values("JFK", variable="count", version=1) == [{"variable": "count", "value": {"n": 3}}]
    assert job.values("LGA") == []
    job.query.batch(3, {"JFK": [1]})  # committed, and not published
    assert job.values("JFK", variable="count") == [{"variable": "count", "value": {"n": 4}}]


def test_pages_are_of_one_snapshot(job: Job) -> None:
    job.batch(2, {"JFK": list(range(25))})
    first = job.get("JFK", variable="rows", limit=10).json()
    job.batch(2, {"JFK": [99]})
    found, page = first["values"], first
    while page["next"]:
        page = job.get("JFK", variable="rows", limit=10, token=page["next"]).json()
        assert page["version"] == 1
        found += page["values"]
    assert [one["value"]["n"] for one in found] == list(range(25))


def test_what_is_not_there(job: Job) -> None:
    assert problem(job.get("JFK"), 404, "not-exist")
    job.publish(b"no record")
    assert "no job record" in problem(job.get("JFK"), 404, "not-exist")["detail"]
    job.batch(1, {"JFK": [7]})
    assert "words" in problem(job.get("JFK", state="other"), 404, "not-exist")["detail"]
    assert problem(job.get("JFK", version=2), 404, "not-exist")
    assert problem(job.get("JFK", version=0), 404, "not-exist")
    files = job.api.call("GET", "/files", params={"under": f"_milepost/state/{JOB}/0/0/words.1x1"}).json()["files"]
    for file in files:
        job.api.call("DELETE", f"/files/{file['path']}", headers={"Milepost-Epoch": str(job.api.epoch)})
    assert problem(job.get("JFK"), 404, "not-exist")


@pytest.mark.parametrize(
    ("key", "query", "said"),
    [
        ("", {}, "JSON"),
        ("[", {}, "JSON"),
        ('"JFK"', {}, "word string"),
        ("[1]", {}, "text"),
        ('["JFK", "EWR"]', {}, "word string"),
        ('["\\ud800"]', {}, "Unicode"),
        ('["JFK"]', {"variable": "none"}, "count"),
        ('["JFK"]', {"version": "-1"}, "whole number"),
        ('["JFK"]', {"token": "x"}, "token"),
        ('["JFK"]', {"limit": "0"}, "limit"),
        ('["JFK"]', {"colour": "red"}, "unknown"),
        (f'["{"x" * 5000}"]', {}, "characters"),
    ],
)
def test_bad_questions_are_refused(job: Job, key: str, query: dict[str, str], said: str) -> None:
    job.batch(1, {"JFK": [7]})
    answer = job.api.call("GET", "/state/words", params={"key": key, **query})
    assert said in problem(answer, 422, "invalid-request")["detail"]


def test_a_key_has_to_be_given(job: Job) -> None:
    problem(job.api.call("GET", "/state/words"), 422, "invalid-request")


def test_damage_is_told_and_a_process_that_dies_is_replaced(job: Job, by_default: ServerProcess) -> None:
    job.batch(1, {"JFK": [7]})
    assert job.values("JFK", variable="count")
    for reader in _readers(by_default):
        os.kill(reader, signal.SIGKILL)
    assert job.values("JFK", variable="count") == [{"variable": "count", "value": {"n": 1}}]
    (file,) = job.api.call("GET", "/files", params={"under": f"_milepost/state/{JOB}/0/0/words.1x1"}).json()["files"]
    content = job.api.call("GET", f"/files/{file['path']}").content
    place = len(content) // 2
    damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    sent = {"Milepost-Epoch": str(job.api.epoch), "Content-Type": "application/octet-stream"}
    assert job.api.call("PUT", f"/files/{file['path']}", content=damaged, headers=sent).status_code == 200
    assert file["path"].rpartition("/")[2] in problem(job.get("JFK"), 500, "corrupt")["detail"]


def _readers(server: ServerProcess) -> list[int]:
    """Return the processes of a server that read state."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == server.pid and b"processors.lookups" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    assert found, "no process reads state"
    return found
