"""Encodes values as the bytes of a state and decodes them, as JSON or with pickle."""

from __future__ import annotations

import json
import pickle
from typing import Any

__all__ = ["json_state", "from_json", "pickle_state", "unsafe_from_pickle"]


def json_state(value: object) -> bytes:
    """Encode ``value`` as UTF-8 JSON with sorted keys, so that equal values have equal digests.

    Raises TypeError or ValueError for values that JSON cannot express (among them NaN and the infinities).
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def from_json(state: bytes) -> Any:
    """Decode the value of a JSON state. Raises ValueError if the state is not JSON."""
    return json.loads(state)


def pickle_state(value: object) -> bytes:
    """Encode ``value`` with pickle. A program that decodes the state must trust every client that may write to the
    store.
    """
    return pickle.dumps(value, protocol=4)


def unsafe_from_pickle(state: bytes) -> Any:
    """Decode a pickled state.

    Decoding runs code from the state, so trust every client that may write to the store.
    """
    return pickle.loads(state)
