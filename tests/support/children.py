"""Python modules run as processes of their own, spoken to in lines, killed and paused for real."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60.0


class Child:
    """A running child. Every wait for it has a deadline and ends in a TimeoutError."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, deadline: float = DEADLINE_SECONDS) -> str:
        """The next line that it prints. Raises EOFError when there is none any more."""
        assert self._process.stdout is not None
        async with asyncio.timeout(deadline):
            line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError(f"the child ended with {await self.ended()}")
        return line.decode().rstrip("\n")

    async def rest(self, deadline: float = DEADLINE_SECONDS) -> list[str]:
        """The lines that it still prints until it ends; without one that was cut off."""
        assert self._process.stdout is not None
        async with asyncio.timeout(deadline):
            return (await self._process.stdout.read()).decode().split("\n")[:-1]

    async def say(self, line: str) -> None:
        """Write one line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()

    async def ended(self, deadline: float = DEADLINE_SECONDS) -> int:
        """Wait for its end; the exit status, negative for a signal."""
        async with asyncio.timeout(deadline):
            return await self._process.wait()

    async def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._signal(signal.SIGKILL)
        await self.ended()

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """Not by the process's own method, which polls and so takes the exit status from the loop that waits for it."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


@asynccontextmanager
async def child(module: str, *arguments: str, under: Sequence[str] = ()) -> AsyncIterator[Child]:
    """Run ``python -m module arguments…`` at the root of the repository; killed at the end if it has not ended.

    ``under`` is a command that runs another one, such as `small_disk` gives; it must exec it.
    """
    pipe = asyncio.subprocess.PIPE
    command = [*under, sys.executable, "-m", module, *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT, limit=1 << 20)
    running = Child(process)
    try:
        yield running
    finally:
        await running.kill()
        assert process.stdin is not None
        process.stdin.close()
