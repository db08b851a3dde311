"""Coders of documents: JSON and msgpack."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack

from milepost.state.coders.coder import Coder
from milepost.state.errors import CoderError


class JsonCoder(Coder[Any]):
    """What JSON can hold, with sorted keys: None, truth values, numbers, text, lists, and dicts whose keys are text.

    Equal documents of equal types have the same bytes. Since 1, 1.0 and True are equal and are written differently,
    the coder does not call itself deterministic.
    """

    def encode(self, value: Any) -> bytes:
        try:
            _check_json(value)
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
            return text.encode()
        except (ValueError, RecursionError) as error:
            raise CoderError(f"JSON cannot hold this: {error}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return json.loads(
                bytes(data).decode(), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
            )
        except (ValueError, RecursionError) as error:
            raise CoderError(f"these bytes are no JSON: {error}") from error


class MsgpackCoder(Coder[Any]):
    """What msgpack can hold: as JSON, with bytes as well, and keys of other kinds. Keys stay in the order they have."""

    def encode(self, value: Any) -> bytes:
        try:
            return bytes(msgpack.packb(value, use_bin_type=True, strict_types=True))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise CoderError(f"msgpack cannot hold this: {error}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return msgpack.unpackb(data, raw=False, strict_map_key=False)
        except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
            raise CoderError(f"these bytes are no msgpack: {error}") from error


def _check_json(value: Any) -> None:
    """Refuse what ``json`` would write as something else: tuples, subclasses, and keys that are not text."""
    kind = type(value)
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise CoderError(f"a key of a JSON object is text, not {type(key).__name__}")
            _check_json(inner)
    elif kind is list:
        for inner in value:
            _check_json(inner)
    elif kind not in (str, int, float, bool, type(None)):
        raise CoderError(f"JSON has no {kind.__name__}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CoderError("an object has a key twice")
    return found


def _no_constant(text: str) -> Any:
    raise CoderError(f"JSON has no {text}")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise CoderError("a number is too large for a float")
    return number
