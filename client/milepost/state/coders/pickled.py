"""The coder for pickle. `milepost.state.coders` does not export it, because decoding runs code that the bytes name."""

from __future__ import annotations

import pickle
from typing import Any

from milepost.state.coders.coder import Coder
from milepost.state.errors import CoderError


class PickleCoder(Coder[Any]):
    """Encodes any value that pickle supports. Dangerous: decoding runs any code that the bytes name.

    A writer of the state can thus run code in every process that reads it. Use this only if all writers are trusted as
    much as the program itself. The bytes also depend on the classes at the time of writing: renaming or moving a class
    makes its values unreadable. Equal values may have different bytes, so they cannot be keys.
    """

    def encode(self, value: Any) -> bytes:
        try:
            return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # pickling runs methods of the value, which may raise anything
            raise CoderError(f"pickle cannot hold this: {type(error).__name__}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return pickle.loads(data)
        except Exception as error:  # unpickling runs code that the bytes name, which may raise anything
            raise CoderError(f"these bytes are no pickle: {type(error).__name__}") from error
