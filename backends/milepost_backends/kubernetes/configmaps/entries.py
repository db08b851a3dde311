"""Encodes a record as an entry of a ConfigMap's ``data``: the key escaped, the value unchanged if it is text.

In Kubernetes a data key has up to 253 characters of ``A-Z a-z 0-9 - . _``. A record's key has the same characters and
``/``. So ``_`` is written ``__``, and ``/`` is written ``_.``. If the escaped key is too long, it is cut off, and ends
in ``_-`` and a hash; the value then begins with the line ``!key <the whole key>``.

Text that is not empty and does not begin with ``!`` is stored unchanged, so that ``kubectl get -o yaml`` shows records
in plain text. Any other value follows a line ``!text`` or ``!base64``, which names its encoding. The line ``!deleted``
without a value is a tombstone: the record was deleted.

A value that cannot be decoded, because another program wrote it, is returned as the stored bytes. The service then
finds that the record's checksum is wrong, and reports the record as damaged. It does not use an older copy of the
record in an older segment (a ConfigMap of the same journal) instead.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Final

_LONGEST: Final = 253
_CUT: Final = re.compile(r"((?:[-.A-Za-z0-9]|__|_\.)*)_-([0-9a-f]{40})\Z")
"""The pattern of a truncated data key: the rest of the escaped key, and the hash of the whole key."""
_HALF_AN_ESCAPE: Final = re.compile(r"(?<!_)(?:__)*_\Z")
"""The pattern of an escaped key that was cut between the two characters of an escape: it ends in an odd number of
``_``.
"""
_HASHED: Final = "_-"
_HASH_LENGTH: Final = 40
_ENDING: Final = len(_HASHED) + _HASH_LENGTH
_DELETED: Final = "!deleted"
_BASE64: Final = "!base64\n"
_TEXT: Final = "!text\n"
_KEY: Final = "!key "


def encode(key: str, value: bytes | None) -> tuple[str, str]:
    """Return the data key and the text of a record, or of a tombstone if ``value`` is None."""
    escaped = key.replace("_", "__").replace("/", "_.")
    if len(escaped) <= _LONGEST:
        return escaped, _DELETED if value is None else _encoded(value)
    kept = escaped[: _LONGEST - _ENDING]
    if _HALF_AN_ESCAPE.search(kept):
        kept = kept[:-1]
    text = _DELETED if value is None else _encoded(value)
    directive = "" if text.startswith("!") else _TEXT
    return f"{kept}{_HASHED}{_hash(key)}", f"{_KEY}{key}\n{directive}{text}"


def is_tombstone(text: str) -> bool:
    """Return whether the ``text`` of an entry says that the record was deleted."""
    return text == _DELETED or (text.startswith(_KEY) and text.partition("\n")[2] == _DELETED)


def key_of(data_key: str, text: str) -> str | None:
    """Return the record's key; None for a data key that this module cannot have written."""
    cut = _CUT.match(data_key) if data_key[-_ENDING:].startswith(_HASHED) else None
    if cut is None:
        return _unescaped(data_key)
    key = text[len(_KEY) :].partition("\n")[0] if text.startswith(_KEY) else ""
    # If the line with the whole key was altered, the cut-off key is returned, under which the record counts as damaged.
    return key if _hash(key) == cut[2] else f"{_unescaped(cut[1])}{_HASHED}{cut[2]}"


def value_of(text: str) -> bytes:
    """Return the record's value. If ``text`` cannot be decoded, return its bytes. Do not call this for a tombstone."""
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
    """Return how many bytes the entry counts towards Kubernetes' limit on the size of a ConfigMap."""
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
    """Return a data key without escapes: ``__`` becomes ``_``, ``_.`` becomes ``/``. None for an invalid escape."""
    if "_" not in data_key:
        return data_key
    parts = [part.replace("_.", "/") for part in data_key.split("__")]
    return None if any("_" in part for part in parts) else "_".join(parts)
