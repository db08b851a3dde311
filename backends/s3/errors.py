"""The border to S3: what obstore and botocore raise becomes the contract's errors here, and nowhere else.

Messages say what was tried and what the server answered; never a URL, which may be a signed one, nor a header.
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

from backends.contract import BackendError, BlobMissing, Misconfigured, StorageFull, StorageUnavailable

_FULL = frozenset({"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"})
_NO_BUCKET = "NoSuchBucket"
# A HEAD is answered without a body and so without a code; botocore then tells the status instead.
_NO_KEY = frozenset({"NoSuchKey", "404", ""})
# The answers to a request that was signed for another region than the bucket's.
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
"""Signatures are refused from 15 minutes on by S3, and sooner by some."""

# obstore tells status and code in the text of its errors alone.
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")


class ConditionFailed(BackendError):
    """412: what the request was conditional on does not hold. For reader and writer to say what that means."""


@contextmanager
def translate_errors(doing: str, *, bucket: str, set_up: bool = False) -> Iterator[None]:
    """Translate what one call raises; ``doing`` completes "cannot …".

    What is a matter of how things were set up, credentials and the like, is `Misconfigured` while the store is being
    opened, and `StorageUnavailable` afterwards, when it may be mended without us.
    """
    try:
        yield
    except ClientError as error:
        answer, code = error.response["ResponseMetadata"], error.response["Error"].get("Code")
        status = int(answer["HTTPStatusCode"])
        if status == 403 and (off := _clock_off(answer["HTTPHeaders"])):
            raise StorageUnavailable(f"cannot {doing}: the S3 server answers 403, {off}") from error
        raise _answered(doing, bucket, status, str(code or ""), set_up) from error
    except (BaseError, FileNotFoundError) as error:
        raise _of_obstore(doing, bucket, error, set_up) from error
    except BotoCoreError as error:
        if set_up and isinstance(error, _SETUP):
            raise Misconfigured(f"cannot {doing}: {_first_line(error)}") from error
        raise StorageUnavailable(f"cannot {doing}: {type(error).__name__}") from error
    except TimeoutError as error:
        raise StorageUnavailable(f"cannot {doing}: no answer in time") from error


def wall_clock() -> datetime:
    """This machine's, with which requests are signed."""
    return datetime.now(timezone.utc)


def _clock_off(headers: Mapping[str, str]) -> str | None:
    """In words, if this machine's clock is far from the server's: no signature is good then, whatever the credentials.
    It may be set right without us, so it is no matter of how things were set up.
    """
    told = headers.get("date")
    off = wall_clock() - parsedate_to_datetime(told) if told else timedelta()
    if abs(off) <= _CLOCK_MAY_BE_OFF:
        return None
    return f"and its clock is {abs(off).total_seconds():.0f} s {'behind' if off > timedelta() else 'ahead of'} ours"


def _of_obstore(doing: str, bucket: str, error: Exception, set_up: bool) -> BackendError:
    told = str(error)
    status, code = _STATUS.search(told), _CODE.search(told)
    if status is None:
        return StorageUnavailable(f"cannot {doing}: no answer from the S3 server")
    return _answered(doing, bucket, int(status[1]), code[1] if code else "", set_up)


def _answered(doing: str, bucket: str, status: int, code: str, set_up: bool) -> BackendError:
    told = f"cannot {doing}: the S3 server answers {status}" + (f" {code}" if code and code != str(status) else "")
    if status == 507 or code in _FULL:
        return StorageFull(told)
    if code == _NO_BUCKET:
        return Misconfigured(f"the bucket {bucket} does not exist") if set_up else StorageUnavailable(told)
    if set_up and status in (401, 403):
        return Misconfigured(f"the credentials are refused for bucket {bucket}: {told}")
    if set_up and (status == 301 or code in _ELSEWHERE):
        return Misconfigured(f"the bucket {bucket} is in another region: {told}")
    if status == 404 and code in _NO_KEY:
        return BlobMissing(told)
    if status == 412:
        return ConditionFailed(told)
    return StorageUnavailable(told)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
