"""SIGTERM: what is in flight ends, what comes late is refused, another replica leads at once. A second one ends it."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from testbed.server import ALL_AS_BLOBS, DEADLINE_SECONDS, ServerProcess
from tests.support.network.faults import before
from tests.support.servers.replicas import PROMPT
from tests.wire.support import raw
from tests.wire.support.api import Api, connect, problem
from tests.wire.support.damage import blob_files
from tests.wire.support.in_process import in_process

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("stopping"), *ALL_AS_BLOBS) as process:
        yield process


@pytest.fixture
def server(process: ServerProcess) -> ServerProcess:
    """One that the test may stop; what it was left with by another test is there again."""
    return process if process.running else process.start()


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with connect(server.url) as client:
        yield client


@contextmanager
def half_sent(server: ServerProcess, api: Api, name: str) -> Iterator[socket.socket]:
    """An upload whose second half, 1 MiB, is still to be sent; its first has arrived."""
    known = blob_files(server)
    target = f"/v1/stores/{api.store}/handles/{name}"
    head = raw.head("POST", target, {"Milepost-Session": str(api.session), "Content-Length": str(2 * MIB)})
    with raw.connected(server.url) as connection:
        connection.sendall(head + b"x" * MIB)
        server.wait_until(lambda: blob_files(server) != known, "the upload does not begin")
        yield connection


def refused_for_lateness(response: httpx.Response) -> None:
    code = response.json()["type"].rpartition(":")[2]
    assert code in ("shutting-down", "no-leader")
    assert problem(response, 503, code)["retryable"] is True


def test_bytes_on_their_way_out_end_and_whatever_would_write_is_refused(server: ServerProcess, api: Api) -> None:
    content = b"x" * (32 * MIB)
    record = api.added("large", content)
    epoch = api.granted()
    other = api.other()
    known = blob_files(server)
    with (
        ThreadPoolExecutor(1) as threads,
        half_sent(server, api.under(epoch), "late") as upload,
        raw.connected(server.url) as download,
    ):
        download.sendall(raw.head("GET", f"/v1/stores/{api.store}/handles/large/state"))
        assert download.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
        campaign = threads.submit(other.campaign, wait=60)
        assert not wait([campaign], timeout=0.3).done
        server.terminate()
        server.wait_for_log("Shutting down")
        refused_for_lateness(campaign.result(DEADLINE_SECONDS))
        upload.sendall(b"x" * MIB)
        refused_for_lateness(raw.answer(upload))
        assert raw.answer(download).content == content
    assert server.wait() == 0
    assert blob_files(server) == known
    with connect(server.start().url) as http:
        again = replace(api, http=http)
        assert again.handles().json()["handles"] == [record]
        assert (again.current().json()["epoch"], again.current().json()["session"]) == (epoch, api.session)
        assert again.state("large").content == content


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_body_that_is_still_coming_is_not_waited_for(server: ServerProcess, api: Api, chunked: bool) -> None:
    """Its sender is told at once, and truly, what became of it; what it sends then does not lose that answer."""
    known = blob_files(server)
    framing = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(64 * MIB)}
    head = raw.head("POST", f"/v1/stores/{api.store}/handles/late", {"Milepost-Session": str(api.session), **framing})
    with raw.connected(server.url) as upload, raw.connected(server.url) as silent:
        silent.sendall(head)
        upload.sendall(head + (b"100000\r\n" if chunked else b"") + b"x" * MIB)
        server.wait_until(lambda: blob_files(server) != known, "the upload does not begin")
        server.signal(signal.SIGINT if chunked else signal.SIGTERM)
        server.wait_for_log("Shutting down")
        with suppress(ConnectionError):
            upload.sendall(b"\r\n100000\r\n" * chunked + b"x" * MIB)
        for connection in (upload, silent):
            refused_for_lateness(raw.answer(connection))
    assert server.wait() == 0
    assert "Traceback" not in server.logged()
    assert blob_files(server) == known
    with connect(server.start().url) as http:
        problem(replace(api, http=http).get("late"), 404, "not-exist")


def test_what_hangs_is_broken_off_with_a_problem_that_says_what_became_of_it(tmp_path: Path) -> None:
    """The test makes both stores silent: a disk on which every call hangs cannot be had without rights."""
    with ExitStack() as held:
        with in_process(tmp_path, replace(PROMPT, resign_seconds=0.5)) as here:
            api = Api.on(here.http, "s")
            api.added("there", bytes(2_000_000))
            here.rig.blobs.looks_pass.clear()
            here.rig.pointers.disturb(before(lambda: asyncio.sleep(3600)))
            url = str(here.http.base_url)
            reading, writing = (held.enter_context(raw.connected(url)) for _ in range(2))
            reading.sendall(raw.head("GET", "/v1/stores/s/handles/there/state"))
            asking = {"Milepost-Session": str(api.session), "Content-Length": "1"}
            writing.sendall(raw.head("POST", "/v1/stores/s/handles/a", asking) + b"x")
            assert here.http.get("/livez").status_code == 200
        problem(raw.answer(reading), 503, "shutting-down")
        problem(raw.answer(writing), 503, "outcome-unknown", outcome="unknown")


def test_another_replica_leads_before_the_first_has_gone(server: ServerProcess, api: Api, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, pointers=server.pointers, blobs=server.blobs) as second:
        second.start(until="/readyz")
        record = api.added("a")
        term = int(api.get("a").headers["milepost-term"])
        with half_sent(server, api, "late"):
            server.terminate()
            second.wait_for("/leader")
            assert server.running
            with connect(second.url) as http:
                after = replace(api, http=http)
                assert after.get("a").json() == record
                assert int(after.add("b").headers["milepost-term"]) > term
                problem(after.add("b"), 409, "already-exists")
        assert server.wait() == 0


def test_a_second_signal_ends_it_without_waiting_for_anything(server: ServerProcess, api: Api) -> None:
    api.added("large", b"x" * (32 * MIB))
    with raw.connected(server.url) as download, half_sent(server, api, "upload"):
        download.sendall(raw.head("GET", f"/v1/stores/{api.store}/handles/large/state"))
        assert download.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
        server.terminate()
        server.wait_for_log("stopping on SIGTERM")
        server.terminate()
        assert server.wait() == -signal.SIGTERM
    with connect(server.start().url) as http:
        assert [handle["name"] for handle in replace(api, http=http).handles().json()["handles"]] == ["large"]
