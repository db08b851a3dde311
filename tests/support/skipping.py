"""Let a deadline of the product run out at a moment that the test chooses, on a loop with real threads and sockets.

The deadline keeps its usual length, so nothing before that moment can reach it, however busy the machine is.
"""

from __future__ import annotations

import asyncio

from tests.support.network.faults import ShiftedClock

BACKEND = ("asyncio", {"loop_factory": lambda: SkippingLoop()})
"""What the fixture ``anyio_backend`` of a module returns whose tests skip time."""


class SkippingLoop(asyncio.SelectorEventLoop):
    """A real loop whose timers can be made due early."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped = 0.0

    def time(self) -> float:
        return super().time() + self._skipped

    def skip(self, seconds: float) -> None:
        """Let all timers of the next ``seconds`` be due at once."""
        self._skipped += seconds


def skip(seconds: float, clock: ShiftedClock | None = None) -> None:
    """Let so many seconds have passed on the running loop, and on the clock of a replica that runs on it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop), "the module has no fixture anyio_backend that returns BACKEND"
    loop.skip(seconds)
    if clock is not None:
        clock.advance(seconds)
