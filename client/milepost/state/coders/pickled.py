"""Pickle, for those who ask for it by name."""

from __future__ import annotations

import pickle
from typing import Any

from milepost.state.coders.coder import Coder
from milepost.state.errors import CoderError


class PickleCoder(Coder[Any]):
    """Any value that pickle takes. Dangerous: decoding runs whatever code the bytes name.

    Whoever can write to the state can so run code in every process that reads it. Use this only where all of them are
    trusted as much as the program itself. Bytes also depend on the classes as they were when they were written: a class
    that is renamed or moved makes its values unreadable. Equal values may have other bytes, so they are no keys.
    """

    def encode(self, value: Any) -> bytes:
        try:
            return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # a value's own code runs, and may raise anything
            raise CoderError(f"pickle cannot hold this: {type(error).__name__}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return pickle.loads(data)
        except Exception as error:  # the bytes say what runs, and it may raise anything
            raise CoderError(f"these bytes are no pickle: {type(error).__name__}") from error
