"""Objects that live in one process: they have connections and threads, which nobody can send elsewhere."""

from __future__ import annotations

from typing import Any


class Staying:
    """Refuses to be pickled with words that help: Spark pickles whatever a function for its executors mentions."""

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} cannot be sent to another process: make a client there, in the code that needs it"
        )
