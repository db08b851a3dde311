"""``milepost-server --check``: what it prints and how it ends; `tests.contracts.test_check` tries each backend."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import pytest

from milepost_backends.contract import (
    BackendError,
    BlobExists,
    BlobInfo,
    Misconfigured,
    StorageFull,
    StorageRefused,
    StorageUnavailable,
)
from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.s3.blobs import S3Blobs
from milepost_server.check import DIRECTORY, BlobTrial, Finding, Verdict, status_of, try_stores
from testbed.ports import Port
from testbed.server import ROOT, ServerProcess
from tests.contracts.places import Services
from tests.contracts.streams import keys, stream
from tests.support.network.gateway import Fault, Gateway, Request, gateway
from tests.support.servers.s3 import BUCKET, shared

pytestmark = pytest.mark.anyio

SECONDS = 60.0


async def ran(directory: Path, *flags: str, pointers: str | None = None, blobs: str | None = None) -> tuple[int, str]:
    """Run the program; return its status and what it printed, or else the end of what it logged."""
    status, out, log = await outcome(directory, *flags, pointers=pointers, blobs=blobs)
    return status, out or log.splitlines()[-1]


async def outcome(
    directory: Path, *flags: str, pointers: str | None = None, blobs: str | None = None
) -> tuple[int, str, str]:
    """Run the program; return its status, what it printed, and what it logged."""
    places = ["--pointers", pointers or f"embedded:{directory}/pointers", "--blobs", blobs or f"file:{directory}/blobs"]
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "milepost_server", *places, *flags, cwd=ROOT, stdout=-1, stderr=-1, env=os.environ
    )
    async with asyncio.timeout(120):
        out, log = await program.communicate()
    assert program.returncode is not None
    return program.returncode, out.decode(), log.decode()


@pytest.mark.later
async def test_beside_a_replica_that_leads(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        await asyncio.to_thread(server.start)
        before = server.logged()
        status, said = await ran(tmp_path, "--check")
        assert status == 0
        pointers, election, blobs = said.splitlines()
        assert pointers.startswith(f"pointers: ok: opened and read embedded:{tmp_path}/pointers; the records of a")
        assert election == f"election: ok: opened and read; {server.url} leads"
        assert blobs.startswith("blobs: ok: wrote, was refused to overwrite")
        assert server.status_of("/leader") == 200
        assert server.logged().count("leading journal") == before.count("leading journal") == 1
    assert list((tmp_path / "blobs" / DIRECTORY).iterdir()) == []


@pytest.mark.later
async def test_a_deployment_can_be_founded_after_a_check(tmp_path: Path) -> None:
    status, said = await ran(tmp_path, "--check")
    assert (status, "no deployment was founded there yet" in said) == (0, True)
    with ServerProcess(tmp_path) as server:
        await asyncio.to_thread(server.start)


async def test_a_server_that_refuses_for_good_ends_the_check_and_the_start(services: Services, tmp_path: Path) -> None:
    """The gateway answers in the place of a server without conditional writes: the real one has them."""
    async with gateway(shared(services).endpoint_url) as before:
        before(Fault(lambda request: request.method == "PUT", answer=(501, "NotImplemented")))
        place = shared(services).url(BUCKET, "tests/refused", before.url)
        wrong = (
            "cannot write to the bucket with If-None-Match: *: the S3 server answers 501 NotImplemented to PutObject at"
            f" {before.address}; docs/server.md says what an S3 server must be able to do"
        )
        status, said = await ran(tmp_path, "--check", blobs=place)
        assert (status, said.splitlines()[-1]) == (2, f"blobs: refused: {wrong}")
        assert said.startswith("pointers: ok: ")
        port = Port()
        status, said = await ran(tmp_path, "--listen", port.address, blobs=place)
        assert (status, said) == (2, f"milepost-server: {wrong}")


async def test_nothing_of_a_signed_request_is_logged(services: Services, tmp_path: Path) -> None:
    place = shared(services).url(BUCKET, "tests/signed")
    status, said, log = await outcome(tmp_path, "--check", "--log-level", "debug", blobs=place)
    assert (status, "signed requests work from this machine" in said) == (0, True)
    assert "X-Amz" not in log


async def test_a_server_that_does_not_answer_is_an_outage(services: Services, tmp_path: Path) -> None:
    nobody = Port()
    place = shared(services).url(BUCKET, "tests/away", f"http://{nobody.address}")
    status, said = await ran(tmp_path, "--check", blobs=place)
    assert status == 75
    assert said.splitlines()[-1].startswith("blobs: no answer: cannot look at the bucket")


class Silent:
    """A store that never answers."""

    place = "silent"
    full = None

    async def open(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


async def test_each_store_has_its_time_and_no_more() -> None:
    silent = Silent()
    findings = [finding async for finding in try_stores(silent, silent, silent, seconds=0.1)]  # type: ignore[arg-type]
    assert [str(finding) for finding in findings] == [
        f"{name}: no answer: no answer within 0.1 s" for name in ("pointers", "election", "blobs")
    ]
    assert all(finding.overran for finding in findings)


class Full(Silent):
    """A store without room."""

    async def open(self) -> None:
        raise StorageFull("the disk is full")


async def test_a_store_without_room_is_told_from_one_that_does_not_answer() -> None:
    full = Full()
    findings = [finding async for finding in try_stores(full, full, full)]  # type: ignore[arg-type]
    assert str(findings[0]) == "pointers: no room: the disk is full"
    assert status_of(findings) == 75


def test_a_refusal_counts_for_more_than_an_outage() -> None:
    ok, full, away, refused = (Finding("blobs", verdict, "") for verdict in Verdict)
    assert [status_of(each) for each in ([ok], [ok, full], [away, full], [away, refused], [refused, ok])] == [
        *(0, 75, 75, 2, 2)
    ]


async def tried(store: LocalBlobs | S3Blobs) -> str:
    """What a trial says."""
    await store.open()
    try:
        return await BlobTrial(store, SECONDS).run()
    finally:
        await store.close()


class Overwriting(LocalBlobs):
    """It has no condition."""

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = 2.0) -> int:
        try:
            return await super().put(key, stream, patience=patience)
        except BlobExists:
            return 1


class Shifting(LocalBlobs):
    """It takes no ranges."""

    async def get(
        self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        async for chunk in super().get(key, 0, None if end is None else end - start, size=size):
            yield chunk


class Forgetful(LocalBlobs):
    """It lists nothing that is less than an hour old."""

    async def list(self, prefix: str, older_than: float) -> AsyncGenerator[BlobInfo, None]:
        async for info in super().list(prefix, older_than + 3600.0):
            yield info


class Keeping(LocalBlobs):
    """It deletes nothing."""

    async def delete(self, key: str) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "lack"),
    [(Overwriting, "overwritten"), (Shifting, "read back"), (Forgetful, "in the list"), (Keeping, "still there")],
)
async def test_what_a_store_lacks_is_said(tmp_path: Path, kind: type[LocalBlobs], lack: str) -> None:
    with pytest.raises(Misconfigured, match=lack):
        await tried(kind(tmp_path))


async def test_what_a_killed_trial_left_is_deleted_and_what_another_does_now_is_not(tmp_path: Path) -> None:
    store = LocalBlobs(tmp_path)
    await store.open()
    for name in ("left", "running"):
        await store.put(f"{DIRECTORY}/{name}", stream(b"x"))
    os.utime(tmp_path / DIRECTORY / "left", (0, 0))
    await BlobTrial(store, SECONDS).run()
    assert await keys(store) == [f"{DIRECTORY}/running"]
    await store.close()


def lists(request: Request) -> bool:
    """Whether objects are listed."""
    return request.method == "GET" and "list-type=2" in request.target


def signed(method: str) -> Callable[[Request], bool]:
    """Whether it is a request that was signed for others."""
    return lambda request: request.method == method and "X-Amz-Signature" in request.target


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (Fault(lists, answer=(403, "AccessDenied")), StorageRefused, "cannot list"),
        (Fault(lists, answer=(503, "SlowDown")), StorageUnavailable, "cannot list"),
        (Fault(signed("PUT"), answer=(501, "NotImplemented")), Misconfigured, "signed PUT .* 501"),
        (Fault(signed("PUT"), answer=(503, "SlowDown")), StorageUnavailable, "signed PUT .* 503"),
        (Fault(signed("PUT"), answer=(200, "")), Misconfigured, "signed PUT .* overwrites"),
        (Fault(signed("GET"), answer=(403, "AccessDenied")), Misconfigured, "signed GET .* 403"),
        (Fault(signed("GET"), answer=(200, "all")), Misconfigured, "signed GET .* 200"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
async def test_a_server_that_lacks_something(
    services: Services, fault: Fault, kind: type[BackendError], said: str
) -> None:
    """The gateway answers in the place of such a server: the real one lacks nothing."""
    async with gateway(shared(services).endpoint_url) as before:
        with pytest.raises(kind, match=said) as raised:
            await tried(S3Blobs(through(before, services, fault)))
        assert type(raised.value) is kind
        before()
        store = S3Blobs(through(before, services))
        await store.open()
        assert await keys(store) == []
        await store.close()


async def test_a_condition_of_a_signed_put_that_failed_is_known_by_its_code(services: Services) -> None:
    async with gateway(shared(services).endpoint_url) as before:
        seen: list[Request] = []

        def second(request: Request) -> bool:
            if signed("PUT")(request):
                seen.append(request)
            return len(seen) == 2 and request is seen[1]

        url = through(before, services, Fault(second, answer=(500, "PreconditionFailed")))
        assert "signed requests work" in await tried(S3Blobs(url))
        assert len(seen) == 2


async def test_signed_requests_that_cannot_be_sent_are_no_fault_of_the_store(services: Services) -> None:
    async with gateway(shared(services).endpoint_url) as before:
        said = await tried(S3Blobs(through(before, services, Fault(signed("PUT"), drop=True))))
        assert "signed requests cannot be sent from this machine (" in said
        assert "Signature" not in said


def through(before: Gateway, services: Services, *faults: Fault) -> str:
    """A fresh place behind the gateway, which has these faults."""
    before(*faults)
    return shared(services).url(BUCKET, f"tests/{secrets.token_hex(8)}", before.url)
