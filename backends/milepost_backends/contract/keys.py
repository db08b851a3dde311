"""Check the keys of blobs: they are paths of safe segments, the same for every blob store.

A segment is 1 to 200 characters of ``A-Z a-z 0-9 . _ -`` without a leading dot. So a key cannot leave the directory or
prefix of its store, and a backend may keep its own files under names with a leading dot. A key has at most 900
characters, which leaves room for a bucket's prefix below S3's limit of 1,024. No key in use is a directory of another.
"""

from __future__ import annotations

import re
from typing import Final

from milepost_backends.contract.errors import UnsafeKey

MAX_KEY_LENGTH: Final = 900

_SEGMENT: Final = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}"
_KEY: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*\Z")
_PREFIX: Final = re.compile(rf"(?:{_SEGMENT}/)*(?:{_SEGMENT})?\Z")


def check_key(key: str) -> str:
    """Return the key if it is a safe one. Raises `UnsafeKey`."""
    if len(key) > MAX_KEY_LENGTH or not _KEY.match(key):
        raise UnsafeKey(f"{key[:MAX_KEY_LENGTH]!r} is not a path of safe segments")
    return key


def check_prefix(prefix: str) -> str:
    """Return the prefix if a safe key can begin with it. Raises `UnsafeKey`."""
    if len(prefix) > MAX_KEY_LENGTH or not _PREFIX.match(prefix):
        raise UnsafeKey(f"{prefix[:MAX_KEY_LENGTH]!r} is not the beginning of a path of safe segments")
    return prefix
