"""A place on the session's S3 server for each test, and what makes faults before it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from milepost_backends.s3.blobs import S3Blobs
from testbed.seaweedfs import S3Endpoint
from tests.contracts.places import Services
from tests.support.network.gateway import Gateway, gateway
from tests.support.servers.s3 import BUCKET, shared


@dataclass(frozen=True)
class S3Place:
    """A fresh prefix in the session's bucket; ``client`` is a plain boto3 client, for what goes on behind our back."""

    server: S3Endpoint
    prefix: str
    client: Any

    def url(self, endpoint_url: str | None = None) -> str:
        """What `S3Blobs` takes."""
        return self.server.url(BUCKET, self.prefix, endpoint_url)

    def path(self, key: str) -> str:
        """The object's key in the bucket."""
        return f"{self.prefix}/{key}"

    def overwrite(self, key: str, body: bytes) -> None:
        """Put other bytes under a key, as Milepost never would."""
        self.client.put_object(Bucket=BUCKET, Key=self.path(key), Body=body)

    def objects(self) -> list[str]:
        """The keys of all objects of the place, but for the probe that is there since it was opened."""
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=self.prefix + "/").get("Contents", [])
        keys = [entry["Key"].removeprefix(self.prefix + "/") for entry in found]
        return [key for key in keys if not key.startswith(".")]

    def uploads(self) -> list[str]:
        """The keys of uploads that are neither completed nor aborted."""
        found = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=self.prefix + "/").get("Uploads", [])
        return [entry["Key"].removeprefix(self.prefix + "/") for entry in found]


@pytest.fixture
def s3(services: Services) -> Iterator[S3Place]:
    """A fresh place."""
    server = shared(services)
    client = server.client()
    try:
        yield S3Place(server, f"tests/{secrets.token_hex(8)}", client)
    finally:
        client.close()


@pytest.fixture
async def store(s3: S3Place) -> AsyncIterator[S3Blobs]:
    """A store on it, open."""
    blobs = S3Blobs(s3.url())
    await blobs.open()
    try:
        yield blobs
    finally:
        await blobs.close()


@pytest.fixture
async def faulty(s3: S3Place) -> AsyncIterator[tuple[S3Blobs, Gateway]]:
    """A store on it, open, and the gateway that it goes through."""
    async with gateway(s3.server.endpoint_url) as before:
        blobs = S3Blobs(s3.url(before.url), deadline=20.0)
        await blobs.open()
        before.requests.clear()
        try:
            yield blobs, before
        finally:
            before()
            await blobs.close()
