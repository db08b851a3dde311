"""Translates exceptions of obstore and botocore into the errors of the contract.

Messages say what was tried and what the server answered. They never contain a header, or a URL, since it may be signed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConfigParseError,
    InvalidConfigError,
    InvalidRegionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSLError,
)
from obstore.exceptions import BaseError

from milepost_backends.contract import (
    BackendError,
    BlobMissing,
    Misconfigured,
    StorageFull,
    StorageRefused,
    StorageUnavailable,
)

_FULL = frozenset({"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"})
_NO_BUCKET = "NoSuchBucket"
_NO_UPLOAD = "NoSuchUpload"
# An answer to a HEAD has no body, and so no code: botocore then uses the status as the code.
_NO_KEY = frozenset({"NoSuchKey", "404", ""})
# The status that each code implies. It counts more than the status of the answer: servers differ in their statuses, and
# S3 may answer the completion of an upload with 200 and report a failure only by a code in the body.
_STATUS_OF: Final = {
    "AccessDenied": 403,
    "ConditionalRequestConflict": 409,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidRequest": 400,
    "MethodNotAllowed": 405,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchUpload": 404,
    "NotImplemented": 501,
    "OperationAborted": 409,
    "PreconditionFailed": 412,
    "RequestTimeout": 408,
    "RequestTimeTooSkewed": 403,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
    "TooManyRequests": 429,
}
# The statuses after which the same request may succeed a moment later. 409: another request for the key is running.
_MOMENTARY = frozenset({408, 409, 425, 429})
_NEVER = frozenset({501, 505})
# The codes for a request that was signed for another region than the bucket's.
_ELSEWHERE = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
_SETUP = (
    ConfigParseError,
    InvalidConfigError,
    InvalidRegionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSLError,
)

_CLOCK_MAY_BE_OFF: Final = timedelta(minutes=5)
"""The difference of the clocks from which a refused signature is explained by it. S3 itself allows 15 minutes, and some
servers allow less.
"""

# obstore gives the status and the code only in the text of its errors.
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")


class ConditionFailed(BackendError):
    """The condition of a request is not met (412): the object exists already, or was replaced since it was read.

    This is not an error of the contract, so a caller translates it: a blob store raises `BlobExists`, for example.
    """


class UploadGone(StorageRefused):
    """The server does not know the upload in parts: it was aborted, or completed by a request without an answer."""


@contextmanager
def translate_errors(doing: str, *, bucket: str, set_up: bool = False, server: str = "") -> Iterator[None]:
    """Translate the exceptions of one call of obstore or botocore. ``doing`` completes the message "cannot …".

    ``server`` is the host and port of the server, if known. ``set_up`` is true while the blob store is being opened.
    Then a call that the server would always refuse raises `Misconfigured`. Afterwards it raises `StorageRefused`, since
    an operator may repair the cause while the server runs.
    """
    at = f" at {server}" if server else ""
    try:
        yield
    except ClientError as error:
        answer, code = error.response["ResponseMetadata"], str(error.response["Error"].get("Code") or "")
        status = _status(int(answer["HTTPStatusCode"]), code)
        if status == 403 and (off := _clock_off(answer["HTTPHeaders"])):
            raise StorageRefused(f"cannot {doing}: the S3 server answers 403, {off}") from error
        call = f" to {error.operation_name}{at}"
        raise _answered(doing, bucket, status, code, set_up, call) from error
    except (BaseError, FileNotFoundError) as error:
        raise _of_obstore(doing, bucket, error, set_up, at) from error
    except BotoCoreError as error:
        if set_up and isinstance(error, _SETUP):
            raise Misconfigured(f"cannot {doing}: {_first_line(error)}") from error
        raise StorageUnavailable(f"cannot {doing}: {type(error).__name__}{at}") from error
    except TimeoutError as error:
        raise StorageUnavailable(f"cannot {doing}: the S3 server{at} did not answer in time") from error


def wall_clock() -> datetime:
    """Return the time of this machine's wall clock, which is part of each signature."""
    return datetime.now(timezone.utc)


def _clock_off(headers: Mapping[str, str]) -> str | None:
    """Return in words that this machine's clock differs too much from the server's, which an answer's ``headers`` show.

    None if it does not. With such a clock no signature is valid, whatever the credentials. This does not count as a
    wrong configuration, since the clock may be corrected while this program runs.
    """
    text = headers.get("date")
    off = wall_clock() - parsedate_to_datetime(text) if text else timedelta()
    if abs(off) <= _CLOCK_MAY_BE_OFF:
        return None
    return f"and its clock is {abs(off).total_seconds():.0f} s {'behind' if off > timedelta() else 'ahead of'} ours"


def _of_obstore(doing: str, bucket: str, error: Exception, set_up: bool, at: str) -> BackendError:
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is None:
        return StorageUnavailable(f"cannot {doing}: no answer from the S3 server{at}")
    found = code[1] if code else ""
    return _answered(doing, bucket, _status(int(status[1]), found), found, set_up)


def _status(status: int, code: str) -> int:
    """Return the HTTP status that fits the error code of an answer, whatever status came with it."""
    return _STATUS_OF.get(code, status)


def _answered(doing: str, bucket: str, status: int, code: str, set_up: bool, call: str = "") -> BackendError:
    text = f"cannot {doing}: the S3 server answers {status}" + (f" {code}" if code and code != str(status) else "")
    if status == 507 or code in _FULL:
        return StorageFull(text)
    if code == _NO_BUCKET:
        return Misconfigured(f"the bucket {bucket} does not exist") if set_up else StorageRefused(text)
    if set_up and status in (401, 403):
        return Misconfigured(f"the credentials are refused for bucket {bucket}: {text}")
    if set_up and (status == 301 or code in _ELSEWHERE):
        return Misconfigured(f"the bucket {bucket} is in another region: {text}")
    if status == 404 and code in _NO_KEY:
        return BlobMissing(text)
    if status == 412:
        return ConditionFailed(text)
    if code == _NO_UPLOAD:
        return UploadGone(text)
    if status in _MOMENTARY or (status >= 500 and status not in _NEVER):
        return StorageUnavailable(text)
    if set_up:
        return Misconfigured(f"{text}{call}; docs/server.md says what an S3 server must be able to do")
    return StorageRefused(text)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
