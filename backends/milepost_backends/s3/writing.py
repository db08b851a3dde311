"""Writes one blob to S3: by a single PUT, or for a larger blob by an upload in parts.

The PUT, and the completion of an upload, are conditional: S3 refuses them if the key is taken. Each writer puts a
random mark into the metadata of its object. So a request with an unknown outcome can be repeated: if the first attempt
took effect, the second one is refused, and the mark shows that the object is this writer's. All attempts send the same
bytes, and the server checks their digest. If the outcome stays unknown, the writer deletes its object, or leaves it to
the garbage collector of the service.
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
from functools import partial
from typing import Any, Final

import obstore

from milepost_backends.contract import BackendError, BlobExists, BlobMissing, StorageUnavailable
from milepost_backends.repeating import repeated
from milepost_backends.s3.connection import S3Connection
from milepost_backends.s3.errors import ConditionFailed, UploadGone
from milepost_backends.waiting import finish

log = logging.getLogger(__name__)

# The smallest part that S3 accepts. Since S3 accepts 10,000 parts, their size doubles every 1,000 parts: up to 4.8 TiB.
PART_BYTES: Final = 5 * 1024 * 1024
_PARTS_OF_ONE_SIZE: Final = 1000
_PARTS_AT_ONCE: Final = 2
_TIDY_SECONDS: Final = 10.0
# The metadata key of the writer's mark, by which a writer recognizes its own object before it deletes the object.
_ATTEMPT: Final = "milepost-attempt"


class PendingBlob:
    """A blob that is being written to S3. One call of `write` stores the blob under ``key``.

    For ``patience`` see `BlobStore.put`.
    """

    def __init__(self, connection: S3Connection, key: str, patience: float) -> None:
        self._connection = connection
        self._patience = patience
        self._path = connection.prefix + key
        self._attempt = secrets.token_hex(16)
        self._upload: str | None = None
        self._sending: deque[asyncio.Task[dict[str, Any]]] = deque()
        self._sent: list[dict[str, Any]] = []
        self._may_be_visible = False

    async def write(self, stream: AsyncIterator[bytes]) -> int:
        """Write the whole blob from ``stream``, and return its size in bytes. Raises the errors of `BlobStore.put`."""
        try:
            return await self._write(stream)
        except BaseException:
            await self._clean_up()
            raise

    async def _write(self, stream: AsyncIterator[bytes]) -> int:
        cutter = Cutter()
        async for part in cutter.followed_parts(stream):
            await self._send(part)
            del part  # free the memory of this part while the next one is gathered
        try:
            if self._upload is None:
                await repeated(partial(self._put, cutter.rest), self._patience)
            else:
                await self._send(cutter.rest)
                await self._complete()
        except ConditionFailed as error:
            if not await repeated(self._is_ours, self._patience):
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
        """Begin to send one more part of the blob. If enough parts are being sent already, first wait for the oldest of
        them.
        """
        if self._upload is None:
            await repeated(partial(self._connection.act, "begin an upload", self._begin), self._patience)
        if len(self._sending) == _PARTS_AT_ONCE:
            self._sent.append(await self._sending.popleft())
        number = len(self._sent) + len(self._sending) + 1
        sending = partial(self._connection.act, "write a part of a blob", self._send_part, number, part)
        self._sending.append(asyncio.create_task(repeated(sending, self._patience)))

    async def _complete(self) -> None:
        while self._sending:
            self._sent.append(await self._sending[0])
            self._sending.popleft()
        self._may_be_visible = True
        await repeated(self._try_to_complete, self._patience)

    async def _try_to_complete(self) -> None:
        """Complete the upload of the parts. It is no error if an earlier attempt has completed it."""
        try:
            await self._connection.act("complete an upload", self._complete_upload)
        except UploadGone as error:
            if not await self._is_ours():  # the object may appear later: the server may still work on the first attempt
                raise StorageUnavailable(str(error)) from error

    # -- blocking calls, made in threads -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin an upload in parts, and keep its id in this object.

        If the id were returned instead, a cancelled caller would lose it, and nothing could abort the upload.
        """
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
        with suppress(client.exceptions.NoSuchUpload):  # an upload that was completed or aborted needs no abort
            client.abort_multipart_upload(Bucket=self._connection.bucket, Key=self._path, UploadId=self._upload)

    # -- clean-up ----------------------------------------------------------------------------------------------------

    async def _clean_up(self) -> None:
        """Delete the bytes that were written, for a limited time.

        A failure is only logged, since the caller raises its own error.
        """
        if self._upload is not None or self._may_be_visible:
            try:
                await finish(self._leave_nothing(), _TIDY_SECONDS)
            except TimeoutError:
                log.warning("an unfinished blob may be left at %s: deleting it took too long", self._path)

    async def _leave_nothing(self) -> None:
        try:
            if self._sending:
                await asyncio.gather(*self._sending, return_exceptions=True)
            if self._upload is not None:
                with self._connection.translate_errors("abort an upload"):
                    # Not in a thread of the connection: these have ended if the connection was closed.
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
        """Return whether this writer made the object under the blob's key: whether the object has this writer's random
        mark.
        """
        try:
            with self._connection.translate_errors("look at a blob"):
                found = await obstore.get_async(self._connection.writing, self._path, options={"head": True})
        except BlobMissing:
            return False
        return found.attributes.get(_ATTEMPT) == self._attempt


class Cutter:
    """Cuts a stream into the parts of an upload. ``size`` counts the bytes of the stream, and ``rest`` is the last
    part.
    """

    def __init__(self) -> None:
        self.size = 0
        self.rest = bytearray()
        self._number = 1

    async def followed_parts(self, stream: AsyncIterator[bytes]) -> AsyncGenerator[bytearray, None]:
        """Yield each part of the stream that is followed by more bytes. The last part is left in ``rest``."""
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
    """Return the size in bytes of the part of an upload with this number, counted from 1."""
    return PART_BYTES << (number - 1) // _PARTS_OF_ONE_SIZE
