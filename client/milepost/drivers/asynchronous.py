"""The HTTP driver of `milepost.aio.AsyncClient`: on an event loop, it sends requests, waits, and calls functions, as
the operations of `milepost.core` ask.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import httpx

from milepost.core.body import Body, SourceFailed
from milepost.core.effects import Answer, Ask, AskFailed, Effect, Emit, Lost, Operation, Read, Send, Sleep, Work
from milepost.drivers.connections import FOREIGN, Connections, Sent, answer, is_strange, lost, overdue, request_of
from milepost.drivers.early_response import listen
from milepost.errors import Closed

T = TypeVar("T")

_ASKERS = 8
"""The most threads that call token functions at the same time."""


class AsyncDriver:
    """The asynchronous HTTP driver: it carries out operations of `milepost.core` in the calling task, and runs
    functions that block in a worker thread.
    """

    def __init__(self, connections: Connections) -> None:
        self._http = connections.client(httpx.AsyncClient)
        self._connected = listen(self._http)
        self._foreign = connections.transport is not None
        self._via = connections.via
        self._closed = False
        self._process = os.getpid()
        self._askers: anyio.CapacityLimiter | None = None

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._closed

    async def close(self) -> None:
        """Close every connection. Calls under way fail, and later ones raise `Closed`."""
        self._closed = True
        await self._http.aclose()
        for stream in self._connected.end():
            await stream.aclose()

    async def run(self, operation: Operation[T]) -> T:
        """Carry ``operation`` out and return its result."""
        opened = _Opened()
        resumed: Any = None
        try:
            while True:
                try:
                    effect = operation.send(resumed)
                except StopIteration as done:
                    return cast(T, done.value)
                resumed = await self._perform(effect, opened)
        finally:
            operation.close()
            await opened.close()

    async def stream(self, operation: Operation[None]) -> AsyncGenerator[Any, None]:
        """Carry ``operation`` out, and yield each item that it emits. Closing the generator ends the operation."""
        opened = _Opened()
        resumed: Any = None
        try:
            while True:
                try:
                    effect = operation.send(resumed)
                except StopIteration:
                    return
                if isinstance(effect, Emit):
                    yield effect.item
                    resumed = None
                else:
                    resumed = await self._perform(effect, opened)
        finally:
            operation.close()
            await opened.close()

    async def _perform(self, effect: Effect, opened: _Opened) -> Any:
        if isinstance(effect, Send):
            return await self._send(effect, opened)
        if isinstance(effect, Read):
            return await _read(cast("AsyncIterator[bytes]", effect.stream), effect.timeout)
        if isinstance(effect, Sleep):
            return await anyio.sleep(effect.seconds)
        if isinstance(effect, Work):
            return await anyio.to_thread.run_sync(effect.function)
        if isinstance(effect, Ask):
            return await self._asked(effect)
        raise TypeError(f"an operation that emits items must be run with stream(): {effect!r}")

    async def _send(self, send: Send, opened: _Opened) -> Answer | Lost | SourceFailed:
        if self._closed:
            raise Closed("the client was closed")
        if self._process != os.getpid():
            raise Closed("an AsyncClient stays in the process that made it: make one after the fork")
        sent, begun, via = Sent(), _Begun(self._foreign), self._via(send.url)
        try:
            content = None if send.body is None else _content(send.body, sent)
            request = request_of(self._http, send, content)
            request.extensions = {**request.extensions, "trace": begun.note}
            with anyio.move_on_after(send.timeout):
                response = await self._http.send(request, stream=True)
                if is_strange(send, response):
                    await response.aclose()
                    return answer(response, b"", via=via)
                if send.stream and response.is_success:
                    await opened.hold(response)
                    return answer(response, b"", _pieces(response))
                try:
                    return answer(response, b"".join([chunk async for chunk in _pieces(response)]))
                finally:
                    await response.aclose()
        except FOREIGN as error:
            if self._closed:
                raise Closed("the client was closed during this call") from error
            return lost(error, send, sent, via)
        except SourceFailed as failure:
            return failure
        return overdue(send, begun.connected, sent, via)

    async def _asked(self, ask: Ask) -> Any:
        """Call the function of ``ask``, for example one that returns a token: a coroutine function in this task, a
        plain function in a thread, because it may block. Return its result, or the `AskFailed` that it raised.

        These threads are separate from those that read states. So a call that needs a token does not wait behind slow
        reads of other calls.
        """
        try:
            if ask.awaited:
                return await ask.call()
            self._askers = self._askers or anyio.CapacityLimiter(_ASKERS)
            return await anyio.to_thread.run_sync(ask.call, limiter=self._askers)
        except AskFailed as failure:
            return failure


class _Opened:
    """Holds the one response whose body an operation is reading, so that it is closed when the operation ends."""

    def __init__(self) -> None:
        self._response: httpx.Response | None = None

    async def hold(self, response: httpx.Response) -> None:
        await self.close()
        self._response = response

    async def close(self) -> None:
        if self._response is not None:
            with anyio.CancelScope(shield=True):
                await self._response.aclose()
            self._response = None


class _Begun:
    """Follows httpcore's trace of a request: ``connected`` says whether the request had a connection and began to be
    sent.

    With ``foreign``, the transport is the program's own and may emit no trace. ``connected`` is then true from the
    start, so that the request counts as possibly sent.
    """

    def __init__(self, foreign: bool) -> None:
        self.connected = foreign

    async def note(self, event: str, _details: Mapping[str, Any]) -> None:
        self.connected = self.connected or event.endswith(".send_request_headers.started")


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the bytes of a response as they arrive. If the program's own transport has read the body already, yield it
    in one piece.
    """
    if response.is_stream_consumed:
        yield response.content
        return
    async for chunk in response.aiter_raw():
        yield chunk


def _content(body: Body, sent: Sent) -> bytes | AsyncIterator[bytes]:
    content = body.begin()
    if isinstance(content, bytes):
        return content
    chunks = content if isinstance(content, AsyncIterator) else _in_threads(content)
    return _watched(chunks, sent, body)


async def _watched(chunks: AsyncIterator[bytes], sent: Sent, body: Body) -> AsyncIterator[bytes]:
    sent.begin(body.size)
    async for chunk in chunks:
        body.report()
        sent.next(chunk)
        yield chunk
        body.sent(len(chunk))
    sent.end()


async def _in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (chunk := await anyio.to_thread.run_sync(next, chunks, None)) is not None:
        yield chunk


async def _read(chunks: AsyncIterator[bytes], timeout: float) -> bytes | Lost:
    try:
        with anyio.move_on_after(timeout):
            return await anext(chunks, b"")
    except FOREIGN as error:
        return lost(error)
    return Lost(f"no more bytes within {timeout:.3g} s", sent=True, timed_out=True)
