"""Look-ups of keys: what the process asks back for, and what it makes of the answers."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from milepost.state.processors import lookups
from milepost.state.processors.lookups import Channel, answered, questions
from tests.client.state.processors.test_task import Query

JOB = "0a1b2c"


class Service(Channel):
    """Answers as the service does, from a directory."""

    def __init__(self, root: Path, record: Callable[[], bytes | None]) -> None:
        super().__init__(io.BytesIO(), io.BytesIO())
        self._root = root
        self._record = record
        self._answer: tuple[dict[str, Any], bytes] = ({}, b"")
        self.damaged: str | None = None
        self.page = 1000

    def send(self, message: Mapping[str, Any], content: bytes = b"") -> None:
        assert not content, "a look-up only asks"
        self._answer = self._answered(message)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        return self._answer

    def _answered(self, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        name = asked["name"].removeprefix("_milepost/state/")
        if asked["ask"] == "handle":
            record = self._record()
            return ({"refused": "missing", "why": "none"}, b"") if record is None else ({}, record)
        path = self._root / name
        if asked["ask"] == "list":
            names = sorted(one.name for one in path.glob("*") if one.name > asked["after"])
            files = [(one, (path / one).stat().st_size, 0.0) for one in names[: self.page]]
            return {"files": files, "next": files[-1][0] if len(names) > self.page else None}, b""
        if self.damaged is not None:
            return {"refused": self.damaged, "why": "told so"}, b""
        if not path.exists():
            return {"refused": "missing", "why": "none"}, b""
        return {}, path.read_bytes()[asked["start"] : asked["start"] + asked["length"]]


def ask(service: Channel, key: Any = ("JFK",), **more: Any) -> dict[str, Any]:
    given = {"state": "words", "key": json.dumps(key), "variable": None, "version": None, "after": 0, "limit": 1000}
    return answered(service, {**given, **more})


def record_of(query: Query) -> bytes:
    return json.dumps({"schema": 3, "job": JOB, "state": {"words": query.published}}).encode()


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / JOB)


@pytest.fixture
def service(query: Query, tmp_path: Path) -> Service:
    return Service(tmp_path, lambda: record_of(query))


def test_values_come_in_pages(query: Query, service: Service) -> None:
    query.batch(2, {"JFK": list(range(7))})
    whole = ask(service, variable="rows")["answer"]
    assert [one["value"]["n"] for one in whole["values"]] == list(range(7))
    found, after = [], 0
    while after is not None:
        page = ask(service, variable="rows", after=after, limit=3)["answer"]
        found += page["values"]
        after = page["next"]
    assert found == whole["values"]


def test_a_page_ends_with_so_many_bytes(query: Query, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    query.batch(1, {"JFK": list(range(7))})
    monkeypatch.setattr(lookups, "_PAGE_BYTES", 100)
    page = ask(service, variable="rows")["answer"]
    assert 1 < len(page["values"]) == page["next"] < 7


def test_a_directory_is_listed_in_pages(query: Query, service: Service) -> None:
    service.page = 2
    for number in range(6):
        query.batch(1, {"JFK": [number]})
    assert ask(service, variable="count")["answer"]["values"] == [{"variable": "count", "value": {"n": 6}}]


def test_what_is_cleaned_up_meanwhile_is_looked_up_again(query: Query, tmp_path: Path) -> None:
    query.batch(1, {"JFK": [1]})
    old = record_of(query)
    for path in (tmp_path / JOB).rglob("*.delta"):
        path.unlink()
    query.published = None
    query.batch(1, {"JFK": [1, 2]})
    given = [old]
    service = Service(tmp_path, lambda: given.pop() if given else record_of(query))
    assert ask(service, variable="count")["answer"]["values"] == [{"variable": "count", "value": {"n": 2}}]
    given = [old]
    assert ask(service, version=1)["refusal"] == "not-exist"  # who asks for a snapshot means that one
    assert ask(Service(tmp_path, lambda: old))["refusal"] == "not-exist"


def test_a_job_that_goes_on_too_fast(query: Query, tmp_path: Path) -> None:
    query.batch(1, {"JFK": [1]})
    for path in (tmp_path / JOB).rglob("*.delta"):
        path.unlink()
    number = 0

    def record() -> bytes:
        nonlocal number
        number += 1
        return record_of(query) + b" " * number

    assert ask(Service(tmp_path, record))["refusal"] == "too-many-requests"


@pytest.mark.parametrize(("told", "refusal"), [("damaged", "corrupt"), ("failed", "failed"), ("missing", "not-exist")])
def test_what_the_service_refuses(query: Query, service: Service, told: str, refusal: str) -> None:
    query.batch(1, {"JFK": [1]})
    service.damaged = told
    assert ask(service)["refusal"] == refusal


@pytest.mark.parametrize(
    "record", [None, b"\xff", b"[]", b"{}", b'{"job": 5, "schema": 3}', b'{"job": "x", "schema": 2}']
)
def test_where_there_is_no_job_or_no_state(tmp_path: Path, record: bytes | None) -> None:
    assert ask(Service(tmp_path, lambda: record))["refusal"] == "not-exist"


def test_a_snapshot_that_was_altered(query: Query, tmp_path: Path) -> None:
    query.batch(1, {"JFK": [1]})
    altered = record_of(query).replace(b'"version": 1', b'"version": 2')
    assert altered != record_of(query)
    assert ask(Service(tmp_path, lambda: altered))["refusal"] == "corrupt"


def test_messages_on_the_wire() -> None:
    out = io.BytesIO()
    Channel(io.BytesIO(), out).send({"answer": {"ä": base64.b64encode(b"x").decode()}})
    received = Channel(io.BytesIO(out.getvalue() * 2 + b"\0\0"), io.BytesIO())
    assert list(questions(received)) == [{"answer": {"ä": "eA=="}}] * 2


def test_what_takes_too_much_memory_is_told(query: Query, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound itself is the kernel's: `test_a_process_has_a_bound_on_its_memory` has it."""
    query.batch(1, {"JFK": [1]})
    monkeypatch.setattr(lookups, "key_of", Mock(side_effect=MemoryError))
    assert ask(service)["refusal"] == "not-supported"


def test_a_value_that_is_too_large_is_told(query: Query, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    query.batch(1, {"JFK": [1]})
    monkeypatch.setattr(lookups, "_MOST_BYTES", 10)
    refused = ask(service, variable="count")
    assert refused["refusal"] == "not-supported"
    assert "a value of count has" in refused["why"]


def test_a_process_has_a_bound_on_its_memory() -> None:
    program = (
        "from milepost.process_pipe import bound_memory; import pyarrow, pathlib; bound_memory(128 << 20)\n"
        "print(pathlib.Path('/proc/self/oom_score_adj').read_text().strip())\n"
        "held = pyarrow.allocate_buffer(100 << 20)\n"
        "for take in (lambda: bytearray(200 << 20), lambda: pyarrow.allocate_buffer(200 << 20)):\n"
        "    try: take(); print('taken')\n"
        "    except MemoryError: print('refused')\n"
    )
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True, timeout=120
    )
    assert told.stdout.split() == ["1000", "refused", "refused"]
