"""Blobs in a directory and on S3, under embedded pointers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from milepost_backends.s3.blobs import S3Blobs
from milepost_server.blobs.deployment_marker import DIRECTORY
from tests.contracts.places import Services
from tests.corrupt.embedded import EmbeddedScene, file_thing
from tests.corrupt.files import FileHistory
from tests.corrupt.large_files import LargeFileHistory
from tests.corrupt.shape import ALL, Damage, Kind, Scene, Store, Thing
from tests.support.servers import s3
from tests.support.servers.replicas import Backends

_BLOB = "blob"
_MANIFEST = "manifest"
_PACK = "bytes of small files"
_LARGE = "file above 1 MiB"
_LIST = "list of digests"
_BEGINNINGS = {_MANIFEST: b'{"milepost":"manifest"', _LARGE: b"000000000000000", _LIST: b"milepost ranges "}
_WITHOUT_OLDER = ALL - {Damage.OLDER}
"""A blob is written once and never again: there is no older copy."""


class LocalScene(EmbeddedScene):
    """Blobs in a directory."""

    async def thing(self, kind: str, chance: random.Random) -> Thing:
        files = sorted(path for path in (self.directory / "blobs").rglob("*") if path.is_file())
        states = [path for path in files if not {".tmp", DIRECTORY} & set(path.parts)]
        return file_thing(chance.choice([path for path in states if _is(kind, path.read_bytes())]))


def _is(kind: str, content: bytes) -> bool:
    """Whether a blob is of a kind: all files of a pack lie in it side by side, and each names its own path."""
    if kind in _BEGINNINGS:
        return content.startswith(_BEGINNINGS[kind])
    return kind == _BLOB or (content.startswith(b"state/") and content.count(b" under ") != content.count(content[:9]))


@asynccontextmanager
async def _local(directory: Path, services: Services) -> AsyncIterator[Scene]:
    del services
    yield LocalScene(directory)


LOCAL = Store(
    "blobs in a directory",
    (
        Kind(_BLOB, _WITHOUT_OLDER, weight=3),
        Kind(_MANIFEST, _WITHOUT_OLDER, weight=3, history=FileHistory),
        Kind(_PACK, _WITHOUT_OLDER, weight=2, history=FileHistory),
        Kind(_LARGE, _WITHOUT_OLDER, weight=2, history=LargeFileHistory),
        Kind(
            _LIST,
            _WITHOUT_OLDER,
            "a file without a list is read from its beginning",
            weight=3,
            history=LargeFileHistory,
        ),
    ),
    _local,
)


class S3Scene(EmbeddedScene):
    """Blobs on a real S3 server."""

    def __init__(self, directory: Path, services: Services) -> None:
        super().__init__(directory)
        self._url = s3.fresh_url(directory, services)
        self._client = s3.shared(services).client()
        self._prefix = self._url.partition(f"{s3.BUCKET}/")[2].partition("?")[0]

    def build(self, advertise: str) -> Backends:
        return replace(super().build(advertise), blobs=S3Blobs(self._url))

    async def thing(self, kind: str, chance: random.Random) -> Thing:
        assert kind == _BLOB
        found = self._client.list_objects_v2(Bucket=s3.BUCKET, Prefix=self._prefix)["Contents"]
        keys = sorted(each["Key"] for each in found)
        key = chance.choice([key for key in keys if f"/{DIRECTORY}/" not in key])

        async def read() -> bytes | None:
            return bytes(self._client.get_object(Bucket=s3.BUCKET, Key=key)["Body"].read())

        async def write(content: bytes | None) -> None:
            if content is None:
                self._client.delete_object(Bucket=s3.BUCKET, Key=key)
            else:
                self._client.put_object(Bucket=s3.BUCKET, Key=key, Body=content)

        return Thing(read, write)


@asynccontextmanager
async def _s3(directory: Path, services: Services) -> AsyncIterator[Scene]:
    yield S3Scene(directory, services)


S3 = Store("blobs on S3", (Kind(_BLOB, _WITHOUT_OLDER, weight=2),), _s3)
