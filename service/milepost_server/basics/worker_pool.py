"""A pool of worker processes that run one program, and exchange messages with this process.

A message is a JSON object and bytes, its content. It begins with two lengths, each a big-endian number of four bytes:
the length of the JSON, and the length of the content. The JSON and the content follow.
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

log = logging.getLogger("milepost.workers")

_LENGTHS = struct.Struct(">II")
_MOST_BYTES = 64 * 1024 * 1024
_END_SECONDS = 5.0


class WorkerEnded(Exception):
    """Raised if a worker ended, or sent an invalid message, before it answered."""


class Worker:
    """A running process of the pool."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    async def send(self, message: Mapping[str, Any], content: bytes = b"") -> None:
        """Send a JSON object and bytes to the worker. Raises `WorkerEnded` if the worker no longer reads."""
        assert self._process.stdin is not None
        text = json.dumps(message, separators=(",", ":")).encode()
        try:
            self._process.stdin.write(_LENGTHS.pack(len(text), len(content)) + text + content)
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise WorkerEnded(f"the process cannot be sent anything any more: {error!r}") from error

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        """Wait for the next message of the worker, and return its JSON object and its bytes. Raises `WorkerEnded` if
        the worker ends, or sends an invalid message.
        """
        assert self._process.stdout is not None
        try:
            of_text, of_bytes = _LENGTHS.unpack(await self._process.stdout.readexactly(_LENGTHS.size))
            if of_text + of_bytes > _MOST_BYTES:
                raise WorkerEnded(f"the process sent a message of {of_text + of_bytes} bytes")
            text = await self._process.stdout.readexactly(of_text)
            content = await self._process.stdout.readexactly(of_bytes)
            message = json.loads(text)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            raise WorkerEnded(f"the process ended, or sent what is no message: {error!r}") from error
        if not isinstance(message, dict):
            raise WorkerEnded("the process sent what is no message")
        return message, content

    async def end(self) -> None:
        """Kill the process, and wait until it is gone."""
        with suppress(ProcessLookupError):
            self._process.kill()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:  # a killed worker does not end while it is in a system call that does not return
            log.warning("the process %d was killed and is still there: it is left behind", self._process.pid)


def _way_to_programs() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG") if name in os.environ}


class WorkerPool:
    """A pool of worker processes that run one program. An idle worker is kept for a while, for the next caller. A
    worker gets nothing from this process but messages and a few environment variables, and ends when this process ends.
    """

    def __init__(
        self,
        program: Sequence[str],
        *,
        most: int,
        idle_seconds: float,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``program`` is the command with its arguments. At most ``most`` workers run at once; further callers wait.

        A worker that is idle for ``idle_seconds`` is ended. A worker gets the variables in ``environment``, and of this
        process's variables only the language and those that locate programs, so that it sees no secrets.
        """
        self._program = program
        self._environment = {**_way_to_programs(), **environment}
        self._idle_seconds = idle_seconds
        self._slots = asyncio.Semaphore(most)
        self._idle: list[tuple[Worker, asyncio.TimerHandle]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self.waiting = 0
        """The number of callers that wait for a worker or use one."""

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Worker]:
        """Borrow a worker exclusively for the block. The worker is killed if the block raises an exception, else
        returned to the pool.

        Raises `WorkerEnded` if none can be started.
        """
        self.waiting += 1
        try:
            async with self._slots:
                worker = self._kept() or await self._started()
                try:
                    yield worker
                except BaseException:
                    await self._end(worker)
                    raise
                timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle, worker)
                self._idle.append((worker, timer))
        finally:
            self.waiting -= 1

    async def close(self) -> None:
        """End the idle workers, and wait until all workers that are being ended are gone."""
        idle, self._idle = self._idle, []
        for worker, timer in idle:
            timer.cancel()
            await self._end(worker)
        if self._ending:
            await asyncio.wait(self._ending)

    def _kept(self) -> Worker | None:
        while self._idle:
            worker, timer = self._idle.pop()
            timer.cancel()
            if worker.alive:
                return worker
        return None

    async def _started(self) -> Worker:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._program, stdin=pipe, stdout=pipe, start_new_session=True, env=self._environment
            )
        except OSError as error:
            raise WorkerEnded(f"the process cannot be started: {error}") from error
        return Worker(process)

    async def _end(self, worker: Worker) -> None:
        """End a worker. If the caller is cancelled meanwhile, the worker is still ended."""
        await asyncio.shield(self._begin_to_end(worker))

    def _end_idle(self, worker: Worker) -> None:
        self._idle = [one for one in self._idle if one[0] is not worker]
        self._begin_to_end(worker)

    def _begin_to_end(self, worker: Worker) -> asyncio.Task[None]:
        task = asyncio.ensure_future(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task
