"""A trial of blobs finds what a store lacks, and tells an outage from a refusal."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import pytest

from milepost_backends.contract import (
    BackendError,
    BlobExists,
    BlobInfo,
    Misconfigured,
    StorageRefused,
    StorageUnavailable,
)
from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.s3.blobs import S3Blobs
from milepost_server.blobs.trial import DIRECTORY, BlobTrial
from tests.contracts.places import Services
from tests.contracts.streams import keys, stream
from tests.support.network.gateway import Fault, Gateway, Request, gateway
from tests.support.servers.s3 import BUCKET, shared

pytestmark = pytest.mark.anyio

SECONDS = 60.0


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
