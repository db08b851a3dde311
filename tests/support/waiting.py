"""Waiting with a deadline for what comes about in its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(holds: Callable[[], Awaitable[bool]], deadline: float = 60.0) -> None:
    """Ask until the answer is yes. Raises TimeoutError after ``deadline`` seconds."""
    async with asyncio.timeout(deadline):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)
