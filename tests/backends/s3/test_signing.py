"""Requests that others send to S3 by themselves, with nothing but what was signed for them."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import httpx
import pytest

from milepost_backends.contract import BlobMissing, SignedRequest, StorageUnavailable, UnsafeKey
from milepost_backends.s3.blobs import S3Blobs
from tests.backends.s3.conftest import S3Place
from tests.contracts.streams import fresh_stream, is_missing, keys, read, stream
from tests.support.servers.s3 import alone

pytestmark = pytest.mark.anyio

BODY = b"what was announced"


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


async def signed(store: S3Blobs, key: str, body: bytes = BODY, seconds: float = 60.0) -> SignedRequest:
    """A signed PUT of the body."""
    request = await store.sign_put(key, len(body), sha256(body), seconds)
    assert request is not None
    assert request.method == "PUT"
    return request


async def send(request: SignedRequest, body: bytes | None = None, **headers: str) -> httpx.Response:
    """Send it as somebody without any credentials would."""
    async with httpx.AsyncClient(trust_env=False, timeout=60.0) as client:
        return await client.request(
            request.method, request.url, content=body, headers={**request.headers, **headers}, timeout=30
        )


@pytest.mark.parametrize("body", [b"", BODY, b"x" * 6_000_000], ids=["nothing", "a little", "more than a part"])
async def test_a_signed_put_writes_the_blob_once(store: S3Blobs, body: bytes) -> None:
    request = await signed(store, "a/blob", body)
    assert (await send(request, body)).status_code == 200
    assert await read(store, "a/blob") == body
    assert await store.checked_digest("a/blob") == sha256(body)
    assert (await send(request, body)).status_code == 412
    assert await read(store, "a/blob") == body


@pytest.mark.parametrize("body", [b"WHAT WAS ANNOUNCED", BODY + b"!", BODY[:-1], b""])
async def test_a_signed_put_takes_no_other_bytes(store: S3Blobs, body: bytes) -> None:
    request = await signed(store, "blob")
    headers = {"Content-Length": str(len(body))}
    assert (await send(request, body, **headers)).status_code in (400, 403)
    assert await is_missing(store, "blob")
    assert (await send(request, BODY)).status_code == 200


@pytest.mark.parametrize("missing", ["If-None-Match", "x-amz-checksum-sha256"])
async def test_a_signed_put_without_its_headers_is_refused(store: S3Blobs, missing: str) -> None:
    request = await signed(store, "blob")
    headers = {name: value for name, value in request.headers.items() if name != missing}
    bare = SignedRequest(request.method, request.url, headers, request.expires_in)
    assert (await send(bare, BODY)).status_code == 403
    assert await is_missing(store, "blob")


async def test_a_signed_put_is_for_its_own_key_alone(store: S3Blobs) -> None:
    request = await signed(store, "blob")
    moved = SignedRequest("PUT", request.url.replace("/blob?", "/other?"), request.headers, request.expires_in)
    assert (await send(moved, BODY)).status_code == 403
    assert await keys(store) == []


async def test_signatures_end(store: S3Blobs) -> None:
    await store.put("there", stream(b"x"))
    put, got = await signed(store, "blob", seconds=1.0), await store.sign_get("there", 1.0)
    assert got is not None
    await asyncio.sleep(2.1)
    assert (await send(put, BODY)).status_code == 403
    assert (await send(got)).status_code == 403
    assert await is_missing(store, "blob")


async def test_a_signed_get_reads_also_in_ranges(store: S3Blobs) -> None:
    await store.put("a/blob", stream(BODY))
    request = await store.sign_get("a/blob", 60.0)
    assert request is not None
    whole, part = await send(request), await send(request, Range="bytes=5-7")
    assert (whole.status_code, whole.content) == (200, BODY)
    assert (part.status_code, part.content) == (206, BODY[5:8])


async def test_a_signed_get_says_nothing_of_whether_the_blob_is_there(store: S3Blobs) -> None:
    request = await store.sign_get("a/blob", 60.0)
    assert request is not None
    assert (await send(request)).status_code == 404


async def test_a_signature_is_not_shown(store: S3Blobs) -> None:
    request = await signed(store, "blob")
    assert "X-Amz-Signature" in request.url
    assert "X-Amz-Signature" not in repr(request)


async def test_signatures_hold_no_longer_than_asked_for_and_a_week_at_most(store: S3Blobs) -> None:
    for seconds, expected in ((90.9, 90), (10.0**9, 604_800), (0.2, 1)):
        request = await store.sign_get("blob", seconds)
        assert request is not None
        assert request.expires_in == expected
        assert f"X-Amz-Expires={expected}&" in request.url


async def test_what_is_too_large_for_one_put_is_not_signed(store: S3Blobs) -> None:
    assert await store.sign_put("blob", 5 * 1024**3, sha256(b""), 60.0) is not None
    assert await store.sign_put("blob", 5 * 1024**3 + 1, sha256(b""), 60.0) is None


async def test_unsafe_keys_are_not_signed(store: S3Blobs) -> None:
    with pytest.raises(UnsafeKey):
        await store.sign_put("../blob", 1, sha256(b"x"), 60.0)
    with pytest.raises(UnsafeKey):
        await store.sign_get("../blob", 60.0)
    with pytest.raises(UnsafeKey):
        await store.checked_digest("../blob")


async def test_a_closed_store_does_not_sign(s3: S3Place) -> None:
    store = S3Blobs(s3.url())
    with pytest.raises(StorageUnavailable):
        await store.sign_get("blob", 60.0)


async def test_the_digest_is_known_of_what_the_server_checked_as_a_whole(store: S3Blobs, s3: S3Place) -> None:
    await store.put("small", stream(BODY))
    assert await store.checked_digest("small") == sha256(BODY)
    await store.put("large", fresh_stream(6, 1024 * 1024))
    assert await store.checked_digest("large") is None
    s3.overwrite("unchecked", BODY)
    assert await store.checked_digest("unchecked") is None
    with pytest.raises(BlobMissing):
        await store.checked_digest("missing")


async def test_credentials_that_cannot_be_renewed_now(
    s3: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come from a program that stops to give them; what it gave last ends so soon that it must be asked again."""
    alone(monkeypatch, tmp_path)
    program = tmp_path / "credentials"
    issued = '{"Version": 1, "AccessKeyId": "milepost", "SecretAccessKey": "milepost-secret", "Expiration": "EXPIRES"}'
    program.write_text(f"echo '{issued}' | sed \"s/EXPIRES/$(date -u -d '+60 seconds' +%Y-%m-%dT%H:%M:%SZ)/\"\n")
    (tmp_path / "config").write_text(f"[default]\ncredential_process = sh {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    store = S3Blobs(s3.url())
    await store.open()
    try:
        assert await store.sign_get("blob", 60.0) is not None
        program.write_text("echo no more >&2; exit 1\n")
        with pytest.raises(StorageUnavailable):
            await store.sign_get("blob", 60.0)
    finally:
        await store.close()
