"""Do several things at the same time, as one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def gather_or_cancel(parts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all parts, of which there is at least one, until they have ended. If one fails, the others are cancelled.

    Raises the error of the first that failed, as it is.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
