"""Keep blobs as objects in a bucket of Amazon S3, or of a server that speaks its protocol."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import obstore

from milepost_backends.contract import (
    PATIENCE_SECONDS,
    BlobInfo,
    BlobMissing,
    BlobSizeDiffers,
    BlobTruncated,
    SignedRequest,
    StorageRefused,
    StorageUnavailable,
    UnsafeKey,
    check_key,
    check_prefix,
)
from milepost_backends.repeating import read_again, reading
from milepost_backends.s3.address import S3Address, parse_address
from milepost_backends.s3.connection import S3Connection
from milepost_backends.s3.errors import ConditionFailed
from milepost_backends.s3.setup import S3Server, prepare
from milepost_backends.s3.writing import PendingBlob

if TYPE_CHECKING:
    from obstore import GetResult

_LISTED_AT_ONCE = 1000
_CHUNK: Final = 256 * 1024

# S3's limits: the most bytes of one PUT, and the longest validity of a signature.
_MAX_PUT_BYTES: Final = 5 * 1024**3
_MAX_SIGNED_SECONDS: Final = 7 * 86400


class S3Blobs:
    """A `BlobStore` at an ``s3://`` URL (see `parse_address`). boto3's own configuration completes the URL.

    ``deadline`` bounds each exchange with the server in seconds, and ``threads`` the number of calls of boto3 at once.
    Raises `Misconfigured`.
    """

    def __init__(self, url: str, *, deadline: float = 30.0, threads: int = 16) -> None:
        self._address: S3Address = parse_address(url)
        self._deadline = deadline
        self._threads = threads
        self._opened: tuple[S3Connection, S3Server] | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Connect, and check that the bucket can be used; see `BlobStore.open`.

        It also aborts uploads of blobs that were begun more than a day ago.
        """
        async with self._opening:
            if self._opened is None:
                self._opened = await asyncio.to_thread(self._connect)

    async def close(self) -> None:
        """Refuse new calls from now on; see `BlobStore.close`. A running put either succeeds or raises
        `StorageUnavailable`.
        """
        async with self._opening:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened[0].close()

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        """Write a blob as an object, and return its size in bytes; see `BlobStore.put`.

        A blob up to 5 MiB takes one request. A larger blob is sent in parts, of which at most three times 5 MiB are in
        memory at once. The server checks the bytes against a SHA-256.
        """
        return await PendingBlob(self._connection, check_key(key), patience).write(stream)

    async def get(
        self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield a range of a blob from its object, in chunks; see `BlobStore.get`."""
        if start < 0 or (end is not None and end < 0):
            raise ValueError(f"a range has no negative bounds: {start}, {end}")
        connection = self._connection
        chunks = _S3Source(connection, check_key(key), start, end, size).chunks()
        async with aclosing(chunks):
            try:
                async for chunk in chunks:
                    yield chunk
            except BlobMissing:
                await self._confirm_bucket(connection)
                raise

    async def size(self, key: str) -> int:
        """Return the size of the object of the blob ``key``; see `BlobStore.size`."""
        connection = self._connection
        path = connection.prefix + check_key(key)
        try:
            return await read_again(partial(self._look, connection, path))
        except BlobMissing:
            await self._confirm_bucket(connection)
            raise

    async def _look(self, connection: S3Connection, path: str) -> int:
        with connection.translate_errors("look at a blob"):
            async with asyncio.timeout(self._deadline):
                return (await obstore.head_async(connection.reading, path))["size"]

    async def delete(self, key: str) -> None:
        """Delete the object of the blob ``key``; see `BlobStore.delete`."""
        connection = self._connection
        path = connection.prefix + check_key(key)
        with connection.translate_errors("delete a blob"):
            async with asyncio.timeout(self._deadline):
                await obstore.delete_async(connection.reading, path)

    async def list(self, prefix: str, older_than: float) -> AsyncGenerator[BlobInfo, None]:
        """Yield the blobs below ``prefix`` of at least a given age; see `BlobStore.list`.

        The age of a blob that was sent in parts counts from the beginning of its upload.
        """
        connection, server = self._open_now()
        root = connection.prefix
        below = root + check_prefix(prefix).rpartition("/")[0]
        pages = obstore.list(connection.reading, below.rstrip("/") or None, chunk_size=_LISTED_AT_ONCE)
        while True:
            with connection.translate_errors("list the blobs"):
                async with asyncio.timeout(self._deadline):
                    page = await anext(pages, None)
            if page is None:
                return
            now = server.clock.now()
            for found in page:
                key = found["path"].removeprefix(root)
                age = max(0.0, (now - found["last_modified"]).total_seconds())
                if key.startswith(prefix) and age >= older_than and _is_key(key):
                    yield BlobInfo(key, found["size"], age)

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> SignedRequest | None:
        """Return a signed PUT of one blob; see `BlobStore.sign_put`. None for more than 5 GiB: S3 accepts no more in
        one PUT.

        The signature is valid for a week at most, or until the credentials expire.
        """
        if size > _MAX_PUT_BYTES:
            return None
        connection = self._connection
        return await connection.ask(
            "sign a request", partial(_signed_put, connection, check_key(key), size, sha256, seconds)
        )

    async def sign_get(self, key: str, seconds: float) -> SignedRequest | None:
        """Return a signed GET of one blob; see `BlobStore.sign_get`. The signature is valid for a week at most."""
        connection = self._connection
        return await connection.ask("sign a request", partial(_signed_get, connection, check_key(key), seconds))

    async def checked_digest(self, key: str) -> str | None:
        """Return the SHA-256 against which S3 checked the whole blob; see `BlobStore.checked_digest`.

        None for a blob that was sent in parts, since S3 has a digest for each part. None as well if the server accepted
        a wrong digest when the blob store was opened.
        """
        connection, server = self._open_now()
        if not server.checks_digests:
            return None
        path = connection.prefix + check_key(key)
        look = partial(connection.client.head_object, Bucket=connection.bucket, Key=path, ChecksumMode="ENABLED")
        try:
            return _whole_digest(await connection.ask("look at a blob", look))
        except BlobMissing:
            await self._confirm_bucket(connection)
            raise

    def _connect(self) -> tuple[S3Connection, S3Server]:
        connection = S3Connection(self._address, deadline=self._deadline, threads=self._threads)
        try:
            return connection, prepare(connection)
        except BaseException:
            connection.close()
            raise

    async def _confirm_bucket(self, connection: S3Connection) -> None:
        """Raise `StorageUnavailable` if the bucket does not exist.

        Its absence, and not that of one blob, is then the reason why a blob was missing.
        """
        try:
            await connection.ask("look at the bucket", partial(connection.client.head_bucket, Bucket=connection.bucket))
        except BlobMissing as error:
            raise StorageUnavailable(f"the bucket {connection.bucket} does not exist any more") from error

    @property
    def _connection(self) -> S3Connection:
        return self._open_now()[0]

    def _open_now(self) -> tuple[S3Connection, S3Server]:
        if self._opened is None:
            raise StorageRefused("the blob store is not open")
        return self._opened


def _is_key(key: str) -> bool:
    """Return whether ``key`` can be the key of a blob. That of the probe, a test object, cannot."""
    try:
        check_key(key)
    except UnsafeKey:
        return False
    return True


def _whole_digest(head: dict[str, Any]) -> str | None:
    checksum = head.get("ChecksumSHA256")
    if not checksum or head.get("ChecksumType") == "COMPOSITE" or "-" in checksum:
        return None
    return b64decode(checksum).hex()


def _signed_put(connection: S3Connection, key: str, size: int, sha256: str, seconds: float) -> SignedRequest:
    """Return a signed PUT of ``size`` bytes with the digest ``sha256`` under ``key``.

    The signature covers the size, the digest, and the ``If-None-Match`` header.
    """
    checksum = b64encode(bytes.fromhex(sha256)).decode()
    expires_in = _whole_seconds(seconds)
    url = connection.client.generate_presigned_url(
        "put_object",
        Params={
            "Bucket": connection.bucket,
            "Key": connection.prefix + key,
            "ContentLength": size,
            "ChecksumSHA256": checksum,
            "IfNoneMatch": "*",
        },
        ExpiresIn=expires_in,
    )
    headers = {"Content-Length": str(size), "If-None-Match": "*", "x-amz-checksum-sha256": checksum}
    return SignedRequest("PUT", url, headers, expires_in)


def _signed_get(connection: S3Connection, key: str, seconds: float) -> SignedRequest:
    """Return a signed GET of the blob ``key``. The client may add a ``Range`` header to the request."""
    expires_in = _whole_seconds(seconds)
    url = connection.client.generate_presigned_url(
        "get_object", Params={"Bucket": connection.bucket, "Key": connection.prefix + key}, ExpiresIn=expires_in
    )
    return SignedRequest("GET", url, {}, expires_in)


def _whole_seconds(seconds: float) -> int:
    """Return ``seconds``, for which a signature is valid, rounded down, but at least 1 and at most a week."""
    return max(1, min(int(seconds), _MAX_SIGNED_SECONDS))


class _S3Source:
    """One read of the blob ``key``, from byte ``start`` up to, but not including, byte ``end``.

    If ``size`` is given, the blob must have that many bytes.
    """

    def __init__(self, connection: S3Connection, key: str, start: int, end: int | None, size: int | None) -> None:
        self._connection = connection
        self._path = connection.prefix + key
        self._begin = start
        self._position = start
        self._end = end
        self._size = size
        self._tag: str | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the range in chunks; see `BlobStore.get`.

        After a failure, reading resumes if the ETag shows that the object is still the same.
        """
        if self._begin > 0 or self._end is not None:
            size = await read_again(self._look)
            self._end = size if self._end is None else min(self._end, size)
            if self._begin >= self._end:
                return
        pauses = reading()
        while True:
            try:
                result = await self._open()
                async for chunk in self._stream(result):
                    pauses = reading()
                    yield chunk
            except StorageUnavailable as error:
                if self._tag is None and self._position > self._begin:
                    raise
                await pauses.after(error)
            except ConditionFailed as error:
                raise BlobTruncated(f"{self._path} was replaced while it was read") from error
            except BlobMissing as error:
                if self._position == self._begin:
                    raise
                raise BlobTruncated(f"{self._path} was deleted after {self._position} bytes of it were read") from error
            else:
                return

    async def _look(self) -> int:
        with self._connection.translate_errors("look at a blob"):
            async with asyncio.timeout(self._connection.deadline):
                meta = await obstore.head_async(self._connection.reading, self._path)
        self._tag = meta["e_tag"]
        BlobSizeDiffers.check(meta["size"], self._size)
        return meta["size"]

    async def _open(self) -> GetResult:
        """Send the request for the part of the range that was not read yet, and return the answer.

        The first answer for a whole blob also gives its size and ETag, which this object keeps.
        """
        with self._connection.translate_errors("read a blob"):
            async with asyncio.timeout(self._connection.deadline):
                result = await self._get()
        if self._end is None:
            BlobSizeDiffers.check(result.meta["size"], self._size)
            self._end = result.meta["size"]
            self._tag = result.meta["e_tag"]
        return result

    async def _get(self) -> GetResult:
        store, path = self._connection.reading, self._path
        if self._end is None:
            return await obstore.get_async(store, path)
        span = (self._position, self._end)
        if self._tag is None:
            return await obstore.get_async(store, path, options={"range": span})
        return await obstore.get_async(store, path, options={"range": span, "if_match": self._tag})

    async def _stream(self, result: GetResult) -> AsyncGenerator[bytes, None]:
        assert self._end is not None
        stream = result.stream(min_chunk_size=_CHUNK)
        while self._position < self._end:
            with self._connection.translate_errors("read a blob"):
                async with asyncio.timeout(self._connection.deadline):
                    got = await anext(stream, None)
            if got is None:
                raise BlobTruncated(f"{self._path} ended at {self._position} while being read up to {self._end}")
            whole = memoryview(got)
            for begin in range(0, len(whole), _CHUNK):
                chunk = bytes(whole[begin : begin + _CHUNK])
                self._position += len(chunk)
                yield chunk
