"""The blocking driver, which `milepost.Client` uses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar, cast

import httpx

from milepost.core.body import Body, SourceFailed
from milepost.core.effects import Answer, Effect, Emit, Lost, Operation, Read, Send, Sleep, Work
from milepost.drivers.connections import Connections, Progress, answer, is_strange, lost, request_of
from milepost.drivers.deadlines import Deadline, keep
from milepost.errors import Closed

T = TypeVar("T")
Pause = Callable[[float], None]


class BlockingDriver:
    """Carries operations out in the calling thread. Threads may share a driver; a forked child connects anew."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._deadline = Deadline()
        self._http = self._connect()
        self._process = os.getpid()
        self._closed = False

    def close(self) -> None:
        """Close every connection. Calls under way fail, and later ones raise `Closed`."""
        self._closed = True
        if self._process == os.getpid():
            self._http.close()

    def run(self, operation: Operation[T], pause: Pause = time.sleep) -> T:
        """Carry ``operation`` out and return its result."""
        run = self.stream(operation, pause)
        try:
            while True:
                next(run)
        except StopIteration as done:
            return cast(T, done.value)
        finally:
            run.close()

    def stream(self, operation: Operation[T], pause: Pause = time.sleep) -> Generator[Any, None, T]:
        """Carry ``operation`` out, and yield what it emits. Closing the generator ends the operation."""
        opened = _Opened()
        resumed: Any = None
        try:
            while True:
                try:
                    effect = operation.send(resumed)
                except StopIteration as done:
                    return cast(T, done.value)
                if isinstance(effect, Emit):
                    yield effect.item
                    resumed = None
                else:
                    resumed = self._perform(effect, opened, pause)
        finally:
            operation.close()
            opened.close()

    def _perform(self, effect: Effect, opened: _Opened, pause: Pause) -> Any:
        if isinstance(effect, Send):
            return self._send(effect, opened)
        if isinstance(effect, Read):
            return _read(cast("Iterator[bytes]", effect.stream))
        if isinstance(effect, Sleep):
            return pause(effect.seconds)
        if isinstance(effect, Work):
            return effect.function()
        raise TypeError(f"not an effect: {effect!r}")

    def _send(self, send: Send, opened: _Opened) -> Answer | Lost | SourceFailed:
        http = self._own_connections()
        progress = Progress()
        content = None if send.body is None else _content(send.body, progress)
        try:
            request = request_of(http, send, content)
            with self._deadline.within(send.timeout):
                response = http.send(request, stream=True)
                if is_strange(send, response):
                    response.close()
                    return answer(response, b"")
                if send.stream and response.is_success:
                    opened.hold(response)
                    return answer(response, b"", response.iter_raw())
                try:
                    return answer(response, b"".join(response.iter_raw()))
                finally:
                    response.close()
        except (httpx.TransportError, UnicodeError) as error:
            if self._closed:
                raise Closed("the client was closed during this call") from error
            return lost(error, send, progress)
        except RuntimeError as error:  # httpx raises it for a request on a closed client
            if self._closed:
                raise Closed("the client was closed") from error
            raise
        except SourceFailed as failure:
            return failure

    def _connect(self) -> httpx.Client:
        http = httpx.Client(**self._connections.settings())
        keep(self._deadline, http)
        return http

    def _own_connections(self) -> httpx.Client:
        if self._closed:
            raise Closed("the client was closed")
        if self._process != os.getpid():
            self._inherited = self._http  # kept open: its sockets belong to the parent
            self._http = self._connect()
            self._process = os.getpid()
        return self._http


class _Opened:
    """Holds the one response whose body an operation is reading."""

    def __init__(self) -> None:
        self._response: httpx.Response | None = None

    def hold(self, response: httpx.Response) -> None:
        self.close()
        self._response = response

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None


def _content(body: Body, progress: Progress) -> bytes | Iterator[bytes]:
    content = body.begin()
    if isinstance(content, bytes):
        return content
    if isinstance(content, Iterator):
        return _watched(content, progress, body.size)
    raise TypeError("an asynchronous source of bytes needs milepost.aio")


def _watched(chunks: Iterator[bytes], progress: Progress, size: int | None) -> Iterator[bytes]:
    progress.begin(size)
    for chunk in chunks:
        progress.next(chunk)
        yield chunk
    progress.end()


def _read(chunks: Iterator[bytes]) -> bytes | Lost:
    try:
        return next(chunks, b"")
    except httpx.TransportError as error:
        return lost(error)
