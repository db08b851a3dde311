"""Keys of blobs: whose they are, which store they belong to, and in which term they were given out."""

from __future__ import annotations

import secrets
from typing import NamedTuple


class BlobPlace(NamedTuple):
    """What a blob's key says of it."""

    deployment: str
    store: str
    term: int


def prefix_of(deployment: str) -> str:
    """What the keys of a deployment's blobs begin with, and no others."""
    return f"{deployment}/"


def blob_key(deployment: str, store: str, term: int) -> str:
    """A fresh key. It carries the term, so that orphans of older terms are told apart."""
    return f"{prefix_of(deployment)}{store}/{term:012d}/{secrets.token_hex(16)}"


def place_of(key: str) -> BlobPlace | None:
    """What a key says, None for one that is not of Milepost's making."""
    parts = key.split("/")
    return BlobPlace(parts[0], parts[1], int(parts[2])) if len(parts) == 4 and parts[2].isdecimal() else None
