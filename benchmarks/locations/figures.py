"""What is told of times that were measured in rounds, one of each contender in every round."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

_RESAMPLED = 1000
_PARTS = {"p50": 0.5, "p90": 0.9}


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def alone(mine: Sequence[float]) -> dict[str, Any]:
    """Return p50 and p90."""
    return {f"{name} ms": quantile(mine, part) for name, part in _PARTS.items()}


def compared(mine: Sequence[float], base: Sequence[float]) -> dict[str, Any]:
    """Return the same, the ratios of p50 and p90 to those of the base, and what is added at p50.

    Each ratio, and what is added, comes with its 95 % interval: rounds are drawn anew, and both sides of a round stay
    together, since whatever disturbed one was there for the other as well.
    """
    told = alone(mine)
    for name, part in _PARTS.items():
        told[f"{name} ratio"] = _interval(mine, base, partial(_ratio, part))
    told["added p50 ms"] = _interval(mine, base, lambda a, b: statistics.median(a) - statistics.median(b))
    return told


def _ratio(part: float, mine: Sequence[float], base: Sequence[float]) -> float:
    return quantile(mine, part) / quantile(base, part)


def _interval(
    mine: Sequence[float], base: Sequence[float], figure: Callable[[Sequence[float], Sequence[float]], float]
) -> list[float]:
    """Return a figure, and the bounds of its interval."""
    rounds, source = list(zip(mine, base, strict=True)), random.Random(1)
    found = []
    for _ in range(_RESAMPLED):
        drawn = source.choices(rounds, k=len(rounds))
        found.append(figure([a for a, _ in drawn], [b for _, b in drawn]))
    return [round(value, 3) for value in (figure(mine, base), quantile(found, 0.025), quantile(found, 0.975))]
