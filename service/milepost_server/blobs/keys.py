"""Make and read the keys of blobs: whose they are, which store they belong to, and in which term they were made."""

from __future__ import annotations

import secrets
from typing import NamedTuple

_LISTED = "-listed"
_LIST = "-list"


class BlobPlace(NamedTuple):
    """A blob's key says this: its deployment, store and term."""

    deployment: str
    store: str
    term: int


def prefix_of(deployment: str) -> str:
    """Return what the keys of a deployment's blobs begin with, and no other keys."""
    return f"{deployment}/"


def blob_key(deployment: str, store: str, term: int) -> str:
    """Return a fresh key. It carries the term, by which orphans of older terms are recognised."""
    return f"{prefix_of(deployment)}{store}/{term:012d}/{secrets.token_hex(16)}"


def file_key(deployment: str, store: str, term: int) -> str:
    """Return a fresh key for the bytes of a file, which shows that a list of digests may lie beside them."""
    return blob_key(deployment, store, term) + _LISTED


def list_of(key: str) -> str | None:
    """Return the key of the list of digests that may lie beside a blob; None if none does."""
    return key.removesuffix(_LISTED) + _LIST if key.endswith(_LISTED) else None


def owner_of(key: str) -> str:
    """Return the key of the blob that a blob belongs to: of a list of digests, the file's; else ``key`` itself."""
    return key.removesuffix(_LIST) + _LISTED if key.endswith(_LIST) else key


def prefix_of_store(key: str) -> str | None:
    """Return what the keys of all blobs of this blob's store begin with; None for a key that Milepost has not made."""
    place = place_of(key)
    return None if place is None else f"{prefix_of(place.deployment)}{place.store}/"


def place_of(key: str) -> BlobPlace | None:
    """Return what a key says; None for a key that Milepost has not made."""
    parts = key.split("/")
    return BlobPlace(parts[0], parts[1], int(parts[2])) if len(parts) == 4 and parts[2].isdecimal() else None
