"""``milepost-server --check``: what it prints and how it ends; `tests.contracts.test_check` tries each backend."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from milepost_backends.contract import StorageFull
from milepost_server.blobs.trial import DIRECTORY
from milepost_server.check import Finding, Verdict, status_of, try_stores
from testbed.ports import Port
from testbed.server import ROOT, ServerProcess
from tests.contracts.places import Services
from tests.support.network.gateway import Fault, gateway
from tests.support.servers.s3 import BUCKET, shared

pytestmark = pytest.mark.anyio


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
        port.release()
        status, said = await ran(tmp_path, "--listen", port.address, blobs=place)
        assert (status, said) == (2, f"milepost-server: {wrong}")


async def test_nothing_of_a_signed_request_is_logged(services: Services, tmp_path: Path) -> None:
    place = shared(services).url(BUCKET, "tests/signed")
    status, said, log = await outcome(tmp_path, "--check", "--log-level", "debug", blobs=place)
    assert (status, "signed requests work from this machine" in said) == (0, True)
    assert "X-Amz" not in log


async def test_a_server_that_does_not_answer_is_an_outage(services: Services, tmp_path: Path) -> None:
    nobody = Port()
    try:
        place = shared(services).url(BUCKET, "tests/away", f"http://{nobody.address}")
        status, said = await ran(tmp_path, "--check", blobs=place)
    finally:
        nobody.release()
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
