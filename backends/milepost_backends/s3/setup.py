"""Checks a bucket when the blob store is opened: that it is usable, and what its server supports.

Nothing in this module awaits: its functions block, so they are called in a thread.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from milepost_backends.contract import BackendError, BlobMissing, Misconfigured, StorageFull
from milepost_backends.s3.connection import S3Connection
from milepost_backends.s3.errors import ConditionFailed

log = logging.getLogger(__name__)

# The key of the probe object. It stays in the bucket: a replica that deleted it could disturb another replica's check.
PROBE: Final = ".milepost-probe"
ABANDONED_AFTER: Final = timedelta(hours=24)
# The form of the service's blob keys: deployment, store, term and a random number. Other objects are not Milepost's.
_BLOB: Final = re.compile(r"[0-9a-f]{12}/[^/]+/[0-9]{12,}/[0-9a-f]{32}(?:-listed)?\Z")


class ServerClock:
    """The server's wall clock: ``read`` when this object is made, and then continued by this machine's monotonic
    clock.
    """

    def __init__(self, read: datetime) -> None:
        self._read = read
        self._at = time.monotonic()

    def now(self) -> datetime:
        """Return the server's time, to about a second. It does not jump when this machine's wall clock is set."""
        return self._read + timedelta(seconds=time.monotonic() - self._at)


@dataclass(frozen=True, slots=True)
class S3Server:
    """What the opening of a bucket found out about its server.

    It has the server's clock, and whether the server refuses bytes that do not match the digest in the request.
    """

    clock: ServerClock
    checks_digests: bool


def prepare(connection: S3Connection, abandoned_after: timedelta = ABANDONED_AFTER) -> S3Server:
    """Check that the bucket is usable, and return what was found out about its server.

    Uploads of blobs that are older than ``abandoned_after`` are aborted. Raises `Misconfigured`, `StorageUnavailable`.
    """
    clock = _look_at_bucket(connection)
    checks_digests = False
    try:
        _try_out(connection)
        checks_digests = _checks_digests(connection)
    except StorageFull as error:
        log.warning("S3 has no room, so the blob store opens for reading and deleting only: %s", error)
    try:
        _abort_abandoned(connection, clock.now() - abandoned_after)
    except BackendError as error:  # a server or its rights may not permit to list uploads
        log.warning("cannot abort abandoned uploads to bucket %s, which stay: %s", connection.bucket, error)
    return S3Server(clock, checks_digests)


def _look_at_bucket(connection: S3Connection) -> ServerClock:
    try:
        with connection.translate_errors("look at the bucket", set_up=True):
            answer = connection.client.head_bucket(Bucket=connection.bucket)
    except BlobMissing as error:
        raise Misconfigured(f"the bucket {connection.bucket} does not exist") from error
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return ServerClock(parsedate_to_datetime(date) if date else datetime.now(timezone.utc))


def _try_out(connection: S3Connection) -> None:
    """Write and read a small object, the probe, and delete another key, to check that this user may do so.

    The probe is written twice, and an upload in parts is completed under its key, to check that no write overwrites an
    object.
    """
    key = connection.prefix + PROBE
    with _refusal():
        _put_probe(connection, key)
        _put_probe(connection, key)
    upload = _begin_upload(connection, key)
    try:
        with _refusal():
            _complete_upload(connection, key, upload)
    finally:
        with connection.translate_errors("abort an upload to the bucket", set_up=True):
            connection.client.abort_multipart_upload(Bucket=connection.bucket, Key=key, UploadId=upload)
    with connection.translate_errors("read from the bucket", set_up=True):
        connection.client.get_object(Bucket=connection.bucket, Key=key)["Body"].read()
    with connection.translate_errors("delete from the bucket", set_up=True):
        connection.client.delete_object(Bucket=connection.bucket, Key=f"{key}-none")


@contextmanager
def _refusal() -> Iterator[None]:
    """Raise `Misconfigured` unless a call in the block is refused because the object exists already.

    A server that does not refuse such a call would let a write replace a blob.
    """
    try:
        yield
    except ConditionFailed:
        return
    raise Misconfigured("the S3 server overwrites objects in spite of If-None-Match: it cannot keep blobs")


def _put_probe(connection: S3Connection, key: str) -> None:
    with connection.translate_errors("write to the bucket with If-None-Match: *", set_up=True):
        connection.client_once.put_object(Bucket=connection.bucket, Key=key, Body=b"milepost", IfNoneMatch="*")


def _checks_digests(connection: S3Connection) -> bool:
    """Return whether the server refuses an object whose digest is wrong.

    If it does not, a digest that it returns later proves nothing about the object.
    """
    key, wrong = f"{connection.prefix}{PROBE}-damaged", b64encode(hashlib.sha256(b"other bytes").digest()).decode()
    with connection.translate_errors("write to the bucket", set_up=True):
        try:
            connection.client_once.put_object(Bucket=connection.bucket, Key=key, Body=b"milepost", ChecksumSHA256=wrong)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 400:
                return True
            raise
        connection.client.delete_object(Bucket=connection.bucket, Key=key)
    log.warning("the S3 server accepts bytes that do not match their SHA-256: uploads by signed URL are read through")
    return False


def _begin_upload(connection: S3Connection, key: str) -> str:
    with connection.translate_errors("begin an upload to the bucket", set_up=True):
        begun = connection.client.create_multipart_upload(Bucket=connection.bucket, Key=key)
    return str(begun["UploadId"])


def _complete_upload(connection: S3Connection, key: str, upload: str) -> None:
    with connection.translate_errors("write a part of an upload to the bucket", set_up=True):
        sent = connection.client.upload_part(
            Bucket=connection.bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"milepost"
        )
    with connection.translate_errors("complete an upload to the bucket with If-None-Match: *", set_up=True):
        connection.client_once.complete_multipart_upload(
            Bucket=connection.bucket,
            Key=key,
            UploadId=upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]},
            IfNoneMatch="*",
        )


def _abort_abandoned(connection: S3Connection, before: datetime) -> None:
    """Abort uploads of blobs that were begun before ``before``: their writers are dead, but their parts take room.

    Uploads of other programs in the bucket are left alone, since such a program may complete its upload days later.
    """
    with connection.translate_errors("clear abandoned uploads away"):
        for upload in _uploads(connection):
            key = upload["Key"].removeprefix(connection.prefix)
            if _BLOB.match(key) and upload["Initiated"] < before:
                connection.client.abort_multipart_upload(
                    Bucket=connection.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )


def _uploads(connection: S3Connection) -> Iterator[dict[str, Any]]:
    pages = connection.client.get_paginator("list_multipart_uploads")
    for page in pages.paginate(Bucket=connection.bucket, Prefix=connection.prefix):
        yield from page.get("Uploads", ())
