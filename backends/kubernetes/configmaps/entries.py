"""Encode a record as an entry of a ConfigMap's ``data``: the key escaped, the value unchanged wherever it is text.

A data key may have 253 characters of ``A-Z a-z 0-9 - . _``: ``_`` is written ``__`` and ``/`` is written ``_.``. A
longer key is cut off and ends in ``_-`` and a hash, and its value begins with the line ``!key <the key>``.

Where it must, a value says what it is in lines that begin with ``!``: ``!deleted`` (a tombstone), ``!base64`` or
``!text`` (what follows is that). Text that is not empty and does not begin with ``!`` needs no such line, so that
``kubectl get -o yaml`` shows records as they are. A value that is not valid is delivered as the bytes that are there:
the rules above count the record as damaged, and what an older segment has of it stays hidden.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Final

_LONGEST: Final = 253
_CUT: Final = re.compile(r"((?:[-.A-Za-z0-9]|__|_\.)*)_-([0-9a-f]{40})\Z")
_HALF_A_PAIR: Final = re.compile(r"(?<!_)(?:__)*_\Z")
_HASHED: Final = "_-"
_HASH_LENGTH: Final = 40
_CUT_AT: Final = -(len(_HASHED) + _HASH_LENGTH)
_DELETED: Final = "!deleted"
_BASE64: Final = "!base64\n"
_TEXT: Final = "!text\n"
_KEY: Final = "!key "


def encode(key: str, value: bytes | None) -> tuple[str, str]:
    """Return the data key and the text of a record, or of a tombstone where ``value`` is None."""
    escaped = key.replace("_", "__").replace("/", "_.")
    if len(escaped) <= _LONGEST:
        return escaped, _DELETED if value is None else _encoded(value)
    kept = escaped[: _LONGEST - len(_HASHED) - _HASH_LENGTH]
    if _HALF_A_PAIR.search(kept):
        kept = kept[:-1]
    text = _DELETED if value is None else _encoded(value)
    directive = "" if text.startswith("!") else _TEXT
    return f"{kept}{_HASHED}{_hash(key)}", f"{_KEY}{key}\n{directive}{text}"


def is_tombstone(text: str) -> bool:
    """Return whether the entry says that the record was deleted."""
    return text == _DELETED or (text.startswith(_KEY) and text.partition("\n")[2] == _DELETED)


def key_of(data_key: str, text: str) -> str | None:
    """Return the record's key; None if this module never writes such a data key."""
    cut = _CUT.match(data_key) if data_key[_CUT_AT:].startswith(_HASHED) else None
    if cut is None:
        return _unescaped(data_key)
    key = text[len(_KEY) :].partition("\n")[0] if text.startswith(_KEY) else ""
    # Even without its key a record is reported as damaged, under a name near its own.
    return key if _hash(key) == cut[2] else f"{_unescaped(cut[1])}{_HASHED}{cut[2]}"


def value_of(text: str) -> bytes:
    """Return the record's value; the text itself if it is not valid."""
    if not text.startswith("!"):
        return text.encode()
    rest = text.partition("\n")[2] if text.startswith(_KEY) else text
    if rest.startswith(_TEXT):
        return rest[len(_TEXT) :].encode()
    if rest.startswith(_BASE64):
        try:
            return base64.b64decode(rest[len(_BASE64) :], validate=True)
        except binascii.Error:
            return text.encode()
    return text.encode()


def size_of(data_key: str, text: str) -> int:
    """Return how many bytes an entry takes."""
    return len(data_key) + (len(text) if text.isascii() else len(text.encode()))


def _encoded(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _BASE64 + base64.b64encode(value).decode()
    return text if text and not text.startswith("!") else _TEXT + text


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:_HASH_LENGTH]


def _unescaped(data_key: str) -> str | None:
    """Return a data key without escapes. Two underscores are one, and a single one belongs to the dot behind it."""
    if "_" not in data_key:
        return data_key
    parts = [part.replace("_.", "/") for part in data_key.split("__")]
    return None if any("_" in part for part in parts) else "_".join(parts)
