"""Sign requests that others send to S3 in our name.

Nothing in this module awaits: renewing credentials may block.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from milepost_backends.contract import SignedRequest
from milepost_backends.s3.connection import S3Connection

# One PUT takes this many bytes at most, and a signature holds for this long at most.
MAX_PUT_BYTES: Final = 5 * 1024**3
_MAX_SECONDS: Final = 7 * 86400


def signed_put(connection: S3Connection, key: str, size: int, sha256: str, seconds: float) -> SignedRequest:
    """Sign a PUT of exactly these bytes. The signature covers size, digest and condition, so the server checks them."""
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


def signed_get(connection: S3Connection, key: str, seconds: float) -> SignedRequest:
    """Sign a GET, to which a ``Range`` may be added."""
    expires_in = _whole_seconds(seconds)
    url = connection.client.generate_presigned_url(
        "get_object", Params={"Bucket": connection.bucket, "Key": connection.prefix + key}, ExpiresIn=expires_in
    )
    return SignedRequest("GET", url, {}, expires_in)


def _whole_seconds(seconds: float) -> int:
    """Return whole seconds, never more than was asked for, but at least one."""
    return max(1, min(int(seconds), _MAX_SECONDS))
