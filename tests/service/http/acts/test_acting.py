"""Acts whose processes stand still, end, say nonsense or ask for too much. ``tests/client/test_served_acts.py`` has
what sound ones do.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_server.basics.worker_pool import WorkerPool
from milepost_server.blobs.delivery import DeliveryCut
from milepost_server.http.acts import inner
from milepost_server.http.acts.acting import ActCaller, JobActs
from milepost_server.http.connection.exchange import exchange_of

pytestmark = pytest.mark.anyio

PROGRAM = """
import json, struct, sys, time
def hear():
    text, more = struct.unpack(">II", sys.stdin.buffer.read(8))
    return json.loads(sys.stdin.buffer.read(text)), sys.stdin.buffer.read(more).decode()
def say(message, body=""):
    told = json.dumps(message).encode()
    sys.stdout.buffer.write(struct.pack(">II", len(told), len(body)) + told + body.encode())
    sys.stdout.flush()
def ask(target, number=1, method="GET", body="", **headers):
    say({"request": number, "method": method, "target": target, "headers": list(headers.items())}, body)
"""
SCOPE: dict[str, Any] = {
    "type": "http",
    "asgi": {},
    "http_version": "1.1",
    "scheme": "http",
    "client": None,
    "server": None,
}
CALLER = ActCaller("anna", SCOPE, [("authorization", "Bearer of-anna"), ("host", "milepost")])
ACT = {"act": "restore", "job": "flights", "dry_run": False}


async def told(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with what it was asked."""
    request = Request(scope, receive)
    if request.url.path == "/announced":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3000")]})
        raise AssertionError("nothing is sent of what is too long")
    if request.url.path == "/cut":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise DeliveryCut("damaged")
    if request.url.path == "/long":
        await StreamingResponse(iter([b"x" * 1000] * 3))(scope, receive, send)
        return
    whole = exchange_of(scope).take_whole() if request.url.path == "/whole" else await request.body()
    fields = "; ".join(f"{name}={value}" for name, value in request.headers.items())
    response = Response(
        f"{request.method} {request.url.path}?{request.url.query} {fields} {(whole or b'').decode()}", 201
    )
    if request.url.path == "/whole":
        await exchange_of(scope).reply(response)
    else:
        await response(scope, receive, send)


def acting(program: str, seconds: float = 60.0) -> tuple[JobActs, WorkerPool]:
    pool = WorkerPool([sys.executable, "-P", "-c", PROGRAM + program], most=1, idle_seconds=1)
    acts = JobActs(pool, seconds)
    acts.application = told
    return acts, pool


async def end_of(program: str, act: dict[str, Any] = ACT, seconds: float = 60.0) -> dict[str, Any]:
    acts, pool = acting(program, seconds)
    try:
        return (await acts.perform(CALLER, None, act))[0]
    finally:
        await pool.close()
        assert pool.waiting == 0


async def refused(program: str, act: dict[str, Any] = ACT, seconds: float = 60.0) -> Problem:
    with pytest.raises(Problem) as raised:
        await end_of(program, act, seconds)
    return raised.value


@pytest.mark.parametrize("path", ["/v1/x", "/whole"])
async def test_a_request_of_the_process_is_one_of_the_caller(path: str) -> None:
    found = await end_of(
        f"""
act, _ = hear()
ask("{path}?a=1", method="POST", body="content", Authorization="Bearer forged", Host="elsewhere", Accept="x/y")
answer, body = hear()
say({{"answer": {{"act": act, "answer": answer, "body": body}}}})
"""
    )
    assert found["act"] == {**ACT, "seconds": 50.0}
    assert (found["answer"]["response"], found["answer"]["status"]) == (1, 201)
    asked = f"POST {path}?a=1 accept=x/y; authorization=Bearer of-anna; host=milepost content"
    assert found["body"] == asked


async def test_requests_are_answered_beside_each_other() -> None:
    found = await end_of(
        """
hear()
for number in (3, 4): ask("/v1/x", number)
say({"answer": {"numbers": sorted(hear()[0]["response"] for _ in range(2))}})
"""
    )
    assert found == {"numbers": [3, 4]}


async def test_an_answer_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = 'hear(); ask("/long"); answer, body = hear(); say({"answer": {"answer": answer, "bytes": len(body)}})'
    found = await end_of(program)
    assert (found["answer"]["status"], found["bytes"]) == (200, 3000)
    monkeypatch.setattr(inner, "MOST_ANSWER_BYTES", 2000)
    for target in ("/long", "/announced"):
        found = await end_of(program.replace("/long", target))
        why = "an answer has 3000 bytes or more, and an act takes 2000 at most"
        assert found == {"answer": {"response": 1, "refused": why}, "bytes": 0}


async def test_an_answer_that_is_cut_is_lost() -> None:
    found = await end_of('hear(); ask("/cut"); say({"answer": hear()[0]})')
    assert found == {"response": 1, "lost": "the answer was cut: damaged"}


async def test_a_refusal_is_told_as_it_is() -> None:
    error = await refused(
        'hear(); say({"refusal": "fenced", "why": "x", "outcome": "not_applied", "extras": {"current": 7}})'
    )
    assert (error.code, error.detail, error.outcome, error.current) == (Code.FENCED, "x", Outcome.NOT_APPLIED, 7)


async def test_the_process_of_a_refused_act_performs_the_next() -> None:
    acts, pool = acting(
        """
hear(); say({"refusal": "held", "why": "x", "outcome": "not_applied", "extras": {}})
hear(); say({"answer": {"is": "the same"}})
"""
    )
    with pytest.raises(Problem):
        await acts.perform(CALLER, None, ACT)
    assert await acts.perform(CALLER, None, ACT) == ({"is": "the same"}, False)
    await pool.close()


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    "program",
    [
        "",
        "hear()",
        'hear(); say({"answer": 5})',
        'hear(); say({"refusal": "no code", "why": "", "outcome": "unknown", "extras": {}})',
        'hear(); say({"request": 1, "method": "GET /x", "target": "/", "headers": []})',
        'hear(); ask("elsewhere")',
        "hear(); time.sleep(600)",
    ],
)
async def test_without_an_end_the_outcome_of_an_act_is_unknown(program: str, dry_run: bool) -> None:
    error = await refused(program, {**ACT, "dry_run": dry_run}, 5.0 if "sleep" in program else 60.0)
    ended = (Code.STORAGE_UNAVAILABLE, Outcome.NOT_APPLIED) if dry_run else (Code.OUTCOME_UNKNOWN, Outcome.UNKNOWN)
    assert (error.code, error.outcome) == ended


async def test_an_act_that_is_asked_for_again_is_performed_once() -> None:
    acts, pool = acting(
        """
while True:
    act, _ = hear()
    ask("/v1/x"); hear()
    say({"answer": {"at": time.monotonic_ns()}} if act["job"] == "flights" else
        {"refusal": "held", "why": "x", "outcome": "not_applied", "extras": {}})
"""
    )
    (first, replayed), (beside, beside_replayed) = await asyncio.gather(
        *(acts.perform(CALLER, "key", ACT) for _ in "ab")
    )
    assert (first, replayed, beside_replayed) == (beside, False, True)
    assert await acts.perform(CALLER, "key", ACT) == (first, True)
    other = ActCaller("bob", SCOPE, ())
    assert (await acts.perform(other, "key", ACT))[0] != first
    assert (await acts.perform(CALLER, "another", ACT))[0] != first
    with pytest.raises(Problem) as raised:
        await acts.perform(CALLER, "key", {**ACT, "dry_run": True})
    assert raised.value.code is Code.IDEMPOTENCY_MISMATCH
    for _ in range(2):  # what was refused is tried again
        with pytest.raises(Problem) as raised:
            await acts.perform(CALLER, "refused", {**ACT, "job": "buses"})
        assert raised.value.code is Code.HELD
    for number in range(100):
        await acts.perform(CALLER, f"key-{number}", ACT)
    assert len(acts._known) == 64
    assert (await acts.perform(CALLER, "key", ACT))[0] != first, "it is forgotten in its turn"
    await pool.close()


async def test_only_so_many_wait() -> None:
    acts, pool = acting("time.sleep(600)", 5.0)
    waiting = [asyncio.create_task(acts.perform(CALLER, None, ACT)) for _ in range(12)]
    done, _ = await asyncio.wait(waiting, timeout=60.0)
    codes = [task.exception().code for task in done]  # type: ignore[union-attr]
    assert codes.count(Code.TOO_MANY_REQUESTS) == 4
    assert codes.count(Code.OUTCOME_UNKNOWN) >= 1, "that of the one that had a process"
    assert codes.count(Code.OUTCOME_UNKNOWN) + codes.count(Code.STORAGE_UNAVAILABLE) == 8
    await pool.close()
