"""Values as bytes. JSON is the default of this project; pickle is there under names that say what it is."""

from __future__ import annotations

import json
import pickle
from typing import Any

__all__ = ["json_state", "from_json", "pickle_state", "unsafe_from_pickle"]


def json_state(value: object) -> bytes:
    """``value`` as UTF-8 JSON, keys sorted, so that equal values have equal digests.

    Raises TypeError or ValueError for what JSON cannot say (NaN and infinities among it).
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def from_json(state: bytes) -> Any:
    """The value of a JSON state. Raises ValueError where it is none."""
    return json.loads(state)


def pickle_state(value: object) -> bytes:
    """``value`` pickled. Whoever reads it must trust everybody who may write to the store."""
    return pickle.dumps(value, protocol=4)


def unsafe_from_pickle(state: bytes) -> Any:
    """Unpickle a state. This runs code that the state brings along: only for a store whose every writer is trusted."""
    return pickle.loads(state)
