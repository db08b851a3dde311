"""Processes of one program that this one starts to have something done apart from itself, and talks to by messages.

A message is two lengths of four bytes, the highest first, then so many bytes of JSON and so many others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any

log = logging.getLogger("milepost.children")

_LENGTHS = struct.Struct(">II")
_MOST_BYTES = 64 * 1024 * 1024
_END_SECONDS = 5.0


class ChildEnded(Exception):
    """The process ended, or said what cannot be understood, before it had done what it was asked."""


class Child:
    """A process that was started."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    async def send(self, message: Mapping[str, Any], content: bytes = b"") -> None:
        """Send a message. Raises `ChildEnded`."""
        assert self._process.stdin is not None
        text = json.dumps(message, separators=(",", ":")).encode()
        try:
            self._process.stdin.write(_LENGTHS.pack(len(text), len(content)) + text + content)
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise ChildEnded(f"the process cannot be sent anything any more: {error!r}") from error

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        """Return the next message. Raises `ChildEnded`."""
        assert self._process.stdout is not None
        try:
            of_text, of_bytes = _LENGTHS.unpack(await self._process.stdout.readexactly(_LENGTHS.size))
            if of_text + of_bytes > _MOST_BYTES:
                raise ChildEnded(f"the process sent a message of {of_text + of_bytes} bytes")
            text = await self._process.stdout.readexactly(of_text)
            content = await self._process.stdout.readexactly(of_bytes)
            message = json.loads(text)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            raise ChildEnded(f"the process ended, or sent what is no message: {error!r}") from error
        if not isinstance(message, dict):
            raise ChildEnded("the process sent what is no message")
        return message, content

    async def end(self) -> None:
        """Kill the process, and wait until it is gone."""
        with suppress(ProcessLookupError):
            self._process.kill()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:  # in a call to the kernel that does not return
            log.warning("the process %d was killed and is still there: it is left behind", self._process.pid)


def _way_to_programs() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG") if name in os.environ}


class Children:
    """A few processes of one program, which are kept for a while once they have done something.

    They see nothing of this process but what they are sent, and end with it.
    """

    def __init__(
        self,
        program: Sequence[str],
        *,
        most: int,
        idle_seconds: float,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``program`` has its arguments; ``most`` processes are at work at once, and others wait for them.

        One that had nothing to do for ``idle_seconds`` is ended. ``environment`` is added to what it needs of this
        process's own to find its program; secrets are not in that.
        """
        self._program = program
        self._environment = {**_way_to_programs(), **environment}
        self._idle_seconds = idle_seconds
        self._slots = asyncio.Semaphore(most)
        self._idle: list[tuple[Child, asyncio.TimerHandle]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self.waiting = 0
        """How many wait for a process, or use one."""

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Child]:
        """Have a process for oneself. It is killed if the block ends with an exception, also with a cancellation.

        Raises `ChildEnded` if none can be started.
        """
        self.waiting += 1
        try:
            async with self._slots:
                child = self._kept() or await self._started()
                try:
                    yield child
                except BaseException:
                    await self._end(child)
                    raise
                timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle, child)
                self._idle.append((child, timer))
        finally:
            self.waiting -= 1

    async def close(self) -> None:
        """End all that nobody uses."""
        idle, self._idle = self._idle, []
        for child, timer in idle:
            timer.cancel()
            await self._end(child)
        if self._ending:
            await asyncio.wait(self._ending)

    def _kept(self) -> Child | None:
        while self._idle:
            child, timer = self._idle.pop()
            timer.cancel()
            if child.alive:
                return child
        return None

    async def _started(self) -> Child:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._program, stdin=pipe, stdout=pipe, start_new_session=True, env=self._environment
            )
        except OSError as error:
            raise ChildEnded(f"the process cannot be started: {error}") from error
        return Child(process)

    async def _end(self, child: Child) -> None:
        """End a process, however this is cancelled meanwhile."""
        await asyncio.shield(self._begin_to_end(child))

    def _end_idle(self, child: Child) -> None:
        self._idle = [one for one in self._idle if one[0] is not child]
        self._begin_to_end(child)

    def _begin_to_end(self, child: Child) -> asyncio.Task[None]:
        task = asyncio.ensure_future(child.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task
