"""One blob on its way to S3: a single conditional PUT, or for a larger one an upload in parts, completed conditionally.

Nothing is repeated that may have made the blob visible: if the first request landed, the second would be told that the
key is taken. Should a proxy repeat it all the same, the object's mark tells whose it is. What ends without a clear
answer is tidied up after, and what cannot be is left to the collector.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from base64 import b64encode
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any, Final

import obstore

from backends.contract import BackendError, BlobExists, BlobMissing
from backends.s3.connection import S3Connection
from backends.s3.errors import ConditionFailed
from backends.waiting import finish

log = logging.getLogger(__name__)

# The smallest that S3 takes. 10,000 parts are the most, so they double every 1,000: enough for 4.8 TiB.
PART_BYTES: Final = 5 * 1024 * 1024
_PARTS_OF_ONE_SIZE: Final = 1000
_PARTS_AT_ONCE: Final = 2
_TIDY_SECONDS: Final = 10.0
# By this name an object tells who wrote it, so that tidying up never takes what another writer put under the same key.
_ATTEMPT: Final = "milepost-attempt"


class S3Draft:
    """A blob to be written under ``key``; `write` is called once."""

    def __init__(self, connection: S3Connection, key: str) -> None:
        self._connection = connection
        self._path = connection.prefix + key
        self._attempt = secrets.token_hex(16)
        self._upload: str | None = None
        self._sending: deque[asyncio.Task[dict[str, Any]]] = deque()
        self._sent: list[dict[str, Any]] = []
        self._may_be_visible = False

    async def write(self, stream: AsyncIterator[bytes]) -> int:
        """Write all of it and return its size. See `BlobStore.put` for what is raised, and what is left then."""
        try:
            return await self._write(stream)
        except BaseException:
            await self._tidy()
            raise

    async def _write(self, stream: AsyncIterator[bytes]) -> int:
        cutter = Cutter()
        async for part in cutter.followed_parts(stream):
            await self._send(part)
            del part  # a large thing to hold on to while the next is being gathered
        try:
            if self._upload is None:
                await self._put(cutter.rest)
            else:
                await self._send(cutter.rest)
                await self._complete()
        except ConditionFailed as error:
            if not await self._is_ours():
                self._may_be_visible = False
                raise BlobExists(f"there is a blob at {self._path} already") from error
        return cutter.size

    async def _put(self, body: bytearray) -> None:
        self._may_be_visible = True
        request = obstore.put_async(
            self._connection.writing,
            self._path,
            body,
            attributes={_ATTEMPT: self._attempt},
            mode="create",
            use_multipart=False,
        )
        with self._connection.translate_errors("write a blob"):
            await finish(request)

    async def _send(self, part: bytearray) -> None:
        """Send one more part, beside others; waits for the oldest when there are enough of them."""
        if self._upload is None:
            await self._connection.act("begin an upload", self._begin)
        if len(self._sending) == _PARTS_AT_ONCE:
            self._sent.append(await self._sending.popleft())
        number = len(self._sent) + len(self._sending) + 1
        sending = self._connection.act("write a part of a blob", self._send_part, number, part)
        self._sending.append(asyncio.create_task(sending))

    async def _complete(self) -> None:
        while self._sending:
            self._sent.append(await self._sending[0])
            self._sending.popleft()
        self._may_be_visible = True
        await self._connection.act("complete an upload", self._complete_upload)

    # -- blocking calls, made in threads -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Keeps the upload's id here: a result would be lost to a cancellation, and nobody could abort the upload."""
        begun = self._connection.client.create_multipart_upload(
            Bucket=self._connection.bucket,
            Key=self._path,
            Metadata={_ATTEMPT: self._attempt},
            ChecksumAlgorithm="SHA256",
        )
        self._upload = begun["UploadId"]

    def _send_part(self, number: int, part: bytearray) -> dict[str, Any]:
        checksum = b64encode(hashlib.sha256(part).digest()).decode()
        answer = self._connection.client.upload_part(
            Bucket=self._connection.bucket,
            Key=self._path,
            UploadId=self._upload,
            PartNumber=number,
            Body=part,
            ChecksumSHA256=checksum,
        )
        return {"PartNumber": number, "ETag": answer["ETag"], "ChecksumSHA256": checksum}

    def _complete_upload(self) -> None:
        self._connection.client_once.complete_multipart_upload(
            Bucket=self._connection.bucket,
            Key=self._path,
            UploadId=self._upload,
            MultipartUpload={"Parts": self._sent},
            IfNoneMatch="*",
        )

    def _abort_upload(self) -> None:
        client = self._connection.client
        with suppress(client.exceptions.NoSuchUpload):  # completed or aborted already
            client.abort_multipart_upload(Bucket=self._connection.bucket, Key=self._path, UploadId=self._upload)

    # -- tidying up --------------------------------------------------------------------------------------------------

    async def _tidy(self) -> None:
        """Leave nothing, as far as that can be done in a while. The error that led here matters more than ours."""
        if self._upload is not None or self._may_be_visible:
            try:
                await finish(self._leave_nothing(), _TIDY_SECONDS)
            except TimeoutError:
                log.warning("an unfinished blob may be left at %s", self._path)

    async def _leave_nothing(self) -> None:
        try:
            if self._sending:
                await asyncio.gather(*self._sending, return_exceptions=True)
            if self._upload is not None:
                with self._connection.translate_errors("abort an upload"):
                    # Not in the connection's own threads, which are no more if it was closed.
                    await asyncio.to_thread(self._abort_upload)
            if self._may_be_visible:
                await self._delete_if_ours()
        except BlobMissing:
            return
        except BackendError as error:
            log.warning("an unfinished blob may be left at %s: %s", self._path, error)

    async def _delete_if_ours(self) -> None:
        if await self._is_ours():
            with self._connection.translate_errors("delete an unfinished blob"):
                await obstore.delete_async(self._connection.writing, self._path)

    async def _is_ours(self) -> bool:
        """Whether this attempt wrote what is there."""
        try:
            with self._connection.translate_errors("look at a blob"):
                found = await obstore.get_async(self._connection.writing, self._path, options={"head": True})
        except BlobMissing:
            return False
        return found.attributes.get(_ATTEMPT) == self._attempt


class Cutter:
    """Cuts a stream into parts. ``size`` counts its bytes, ``rest`` is what was not given out as a part."""

    def __init__(self) -> None:
        self.size = 0
        self.rest = bytearray()
        self._number = 1

    async def followed_parts(self, stream: AsyncIterator[bytes]) -> AsyncGenerator[bytearray, None]:
        """The parts that are followed by more bytes: not the last one, which is the ``rest``."""
        async for chunk in stream:
            self.size += len(chunk)
            left = memoryview(chunk)
            while len(left) > (room := part_bytes(self._number) - len(self.rest)):
                self.rest += left[:room]
                left = left[room:]
                yield self._take()
            self.rest += left

    def _take(self) -> bytearray:
        part, self.rest = self.rest, bytearray()
        self._number += 1
        return part


def part_bytes(number: int) -> int:
    """The size of a part, counted from 1, in bytes."""
    return PART_BYTES << (number - 1) // _PARTS_OF_ONE_SIZE
