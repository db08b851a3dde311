"""Remembers the results of functions of texts that clients choose, within a known amount of memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

Result = TypeVar("Result")


def remembering(most: int, longest: int) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Return a decorator that keeps the results for the ``most`` texts that were used last, and none for a text of more
    than ``longest`` characters.
    """

    def decorated(function: Callable[[str], Result]) -> Callable[[str], Result]:
        remembered = lru_cache(most)(function)

        @wraps(function)
        def bounded(text: str) -> Result:
            return remembered(text) if len(text) <= longest else function(text)

        return bounded

    return decorated
