"""Parse addresses of S3 blobs: ``s3://bucket/prefix?endpoint_url=…&region=…&addressing_style=path|virtual``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from milepost_backends.contract import Misconfigured, UnsafeKey, check_key, parse_options

_OPTIONS = ("endpoint_url", "region", "addressing_style")
_STYLES = ("path", "virtual")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]\Z")
_REGION = re.compile(r"[A-Za-z0-9-]{1,40}\Z")
# S3 allows keys of 1,024 characters: the prefix, and a key of the blob contract, which has up to 900.
_MAX_PREFIX = 100


@dataclass(frozen=True, slots=True)
class S3Address:
    """The location of blobs in S3: a bucket and a prefix of their keys, which is empty or ends with a slash.

    For a field that is None, boto3's own configuration applies.
    """

    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    addressing_style: str | None = None


def parse_address(url: str) -> S3Address:
    """Return the address in an ``s3://`` URL. Raises `Misconfigured`, which never quotes possible secrets."""
    parts = urlsplit(url)
    if parts.scheme != "s3":
        raise Misconfigured("the URL of S3 blobs must begin with s3://")
    if "@" in parts.netloc:
        raise Misconfigured("an s3:// URL has no credentials: they come from the environment or files of the AWS SDK")
    if not _BUCKET.match(parts.netloc):
        raise Misconfigured(f"{parts.netloc!r} is not the name of a bucket: use s3://bucket/prefix")
    if parts.fragment:
        raise Misconfigured("an s3:// URL ends with its options: remove the part after #")
    options = parse_options(parts.query, _OPTIONS, "s3:// URLs")
    return S3Address(
        bucket=parts.netloc,
        prefix=_prefix(parts.path),
        endpoint_url=_endpoint(options.get("endpoint_url")),
        region=_region(options.get("region")),
        addressing_style=_style(options.get("addressing_style")),
    )


def _prefix(path: str) -> str:
    prefix = path.strip("/")
    if not prefix:
        return ""
    try:
        check_key(prefix)
    except UnsafeKey as error:
        raise Misconfigured(f"the prefix in an s3:// URL must be a path that keys may have: {error}") from error
    if len(prefix) > _MAX_PREFIX:
        raise Misconfigured(f"the prefix in an s3:// URL may have at most {_MAX_PREFIX} characters")
    return prefix + "/"


def _endpoint(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise Misconfigured("endpoint_url must not hold credentials")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise Misconfigured(f"endpoint_url must be an http or https URL, not {url!r}")
    return url.rstrip("/")


def _region(region: str | None) -> str | None:
    if region is not None and not _REGION.match(region):
        raise Misconfigured(f"{region!r} is not the name of a region")
    return region


def _style(style: str | None) -> str | None:
    if style is not None and style not in _STYLES:
        raise Misconfigured(f"addressing_style must be {' or '.join(_STYLES)}, not {style!r}")
    return style
