"""The keys of blobs. A key contains the id of its deployment, the name of its store, and the term in which it was
made.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

_LISTED = "-listed"
_LIST = "-list"


class BlobPlace(NamedTuple):
    """The parts of a blob's key: the id of its deployment, the name of its store, and the term in which the key was
    made.
    """

    deployment: str
    store: str
    term: int


def prefix_of(deployment: str) -> str:
    """Return the prefix that the keys of all blobs of a deployment have, and no other keys."""
    return f"{deployment}/"


def blob_key(deployment: str, store: str, term: int) -> str:
    """Return a fresh key for a blob. It contains the leader's term, by which the garbage collector recognizes blobs of
    older leaderships.
    """
    return f"{prefix_of(deployment)}{store}/{term:012d}/{secrets.token_hex(16)}"


def file_key(deployment: str, store: str, term: int) -> str:
    """Return a fresh key for the bytes of a file. The form of the key says that a list of digests may exist for the
    blob.
    """
    return blob_key(deployment, store, term) + _LISTED


def list_of(key: str) -> str | None:
    """Return the key of the list of digests that may exist for a blob; None for a blob that never has such a list."""
    return key.removesuffix(_LISTED) + _LIST if key.endswith(_LISTED) else None


def owner_of(key: str) -> str:
    """Return the key that a record names: if ``key`` is that of a list of digests, the key of its file's blob; else
    ``key`` itself.
    """
    return key.removesuffix(_LIST) + _LISTED if key.endswith(_LIST) else key


def prefix_of_store(key: str) -> str | None:
    """Return the prefix of the keys of all blobs of this blob's store; None for a key that Milepost did not make."""
    place = place_of(key)
    return None if place is None else f"{prefix_of(place.deployment)}{place.store}/"


def place_of(key: str) -> BlobPlace | None:
    """Return the parts of a key; None for a key that Milepost did not make."""
    parts = key.split("/")
    return BlobPlace(parts[0], parts[1], int(parts[2])) if len(parts) == 4 and parts[2].isdecimal() else None
