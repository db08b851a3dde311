"""The HTTP driver of `milepost.Client`: in the calling thread, it sends requests, waits, and calls functions, as the
operations of `milepost.core` ask.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar, cast

import httpx

from milepost.core.body import Body, SourceFailed
from milepost.core.effects import Answer, Ask, AskFailed, Effect, Emit, Lost, Operation, Read, Send, Sleep, Work
from milepost.drivers.connections import FOREIGN, Connections, Sent, answer, is_strange, lost, request_of
from milepost.drivers.deadlines import Deadline, keep
from milepost.errors import Closed

T = TypeVar("T")
Pause = Callable[[float], None]


class BlockingDriver:
    """The blocking HTTP driver: it carries out operations of `milepost.core` in the calling thread. Threads may share
    it; in a forked process it makes new connections.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._deadline = Deadline()
        self._http = self._connect()
        self._process = os.getpid()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Close every connection. Calls under way fail, and later ones raise `Closed`."""
        self._closed = True
        if self._process == os.getpid():
            self._http.close()
            for stream in self._connected.end():
                stream.close()

    def run(self, operation: Operation[T], pause: Pause = time.sleep) -> T:
        """Carry ``operation`` out and return its result. ``pause`` waits for a number of seconds."""
        run = self.stream(operation, pause)
        try:
            while True:
                next(run)
        except StopIteration as done:
            return cast(T, done.value)
        finally:
            run.close()

    def stream(self, operation: Operation[T], pause: Pause = time.sleep) -> Generator[Any, None, T]:
        """Carry ``operation`` out, yield each item that it emits, and return its result. Closing the generator ends the
        operation. ``pause`` waits for a number of seconds.
        """
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
            return self._read(cast("Iterator[bytes]", effect.stream), effect.timeout)
        if isinstance(effect, Sleep):
            return pause(effect.seconds)
        if isinstance(effect, Work):
            return effect.function()
        if isinstance(effect, Ask):
            return _asked(effect)
        raise TypeError(f"not an effect: {effect!r}")

    def _send(self, send: Send, opened: _Opened) -> Answer | Lost | SourceFailed:
        http = self._own_connections()
        sent, via = Sent(), self._connections.via(send.url)
        try:
            content = None if send.body is None else _content(send.body, sent)
            request = request_of(http, send, content)
            with self._deadline.within(send.timeout):
                response = http.send(request, stream=True)
                if is_strange(send, response):
                    response.close()
                    return answer(response, b"", via=via)
                if send.stream and response.is_success:
                    opened.hold(response)
                    return answer(response, b"", _pieces(response))
                try:
                    return answer(response, b"".join(self._kept_to_the_deadline(_pieces(response))))
                finally:
                    response.close()
        except FOREIGN as error:
            if self._closed:
                raise Closed("the client was closed during this call") from error
            return lost(error, send, sent, via)
        except RuntimeError as error:  # httpx raises RuntimeError for a request on a closed client
            if self._closed:
                raise Closed("the client was closed") from error
            raise
        except SourceFailed as failure:
            return failure

    def _read(self, chunks: Iterator[bytes], timeout: float) -> bytes | Lost:
        try:
            with self._deadline.within(timeout):
                return next(chunks, b"")
        except FOREIGN as error:
            return lost(error)

    def _kept_to_the_deadline(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the chunks of a response; raise `httpx.ReadTimeout` between two chunks once the attempt's deadline has
        passed. Only the program's own transport needs this check: the connections of this driver check the deadline
        themselves.
        """
        for chunk in chunks:
            if self._connections.transport is not None:
                self._deadline.left(None, httpx.ReadTimeout)
            yield chunk

    def _connect(self) -> httpx.Client:
        http = self._connections.client(httpx.Client)
        self._connected = keep(self._deadline, http)
        return http

    def _own_connections(self) -> httpx.Client:
        if self._closed:
            raise Closed("the client was closed")
        if self._process != os.getpid():
            if self._connections.transport is not None:
                raise Closed("a transport of your own stays in the process that made it: make a client after the fork")
            self._inherited = self._http  # do not close this client: its sockets belong to the parent process
            self._http = self._connect()
            self._process = os.getpid()
        return self._http


class _Opened:
    """Holds the one response whose body an operation is reading, so that it is closed when the operation ends."""

    def __init__(self) -> None:
        self._response: httpx.Response | None = None

    def hold(self, response: httpx.Response) -> None:
        self.close()
        self._response = response

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    """Return an iterator over the bytes of a response as they arrive. If the program's own transport has read the body
    already, it comes in one piece.
    """
    return iter((response.content,)) if response.is_stream_consumed else response.iter_raw()


def _content(body: Body, sent: Sent) -> bytes | Iterator[bytes]:
    content = body.begin()
    if isinstance(content, bytes):
        return content
    if isinstance(content, Iterator):
        return _watched(content, sent, body)
    raise TypeError("an asynchronous source of bytes needs milepost.aio")


def _watched(chunks: Iterator[bytes], sent: Sent, body: Body) -> Iterator[bytes]:
    sent.begin(body.size)
    for chunk in chunks:
        body.report()
        sent.next(chunk)
        yield chunk
        body.sent(len(chunk))
    sent.end()


def _asked(ask: Ask) -> Any:
    try:
        return ask.call()
    except AskFailed as failure:
        return failure
