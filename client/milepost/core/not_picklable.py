"""Objects with connections or threads, which cannot be sent to another process."""

from __future__ import annotations

from typing import Any


class NotPicklable:
    """Refuses to be pickled, and says what to do: Spark pickles all that a function for its executors refers to."""

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} cannot be sent to another process: make a client there, in the code that needs it"
        )
