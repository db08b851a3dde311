"""The body of a request: where its bytes come from, and whether they can be sent a second time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from milepost.core.progress import Transfer
from milepost.errors import DigestMismatch
from milepost.wire import Code

State = bytes | bytearray | memoryview | os.PathLike[str] | BinaryIO | Iterable[bytes]
AsyncState = State | AsyncIterable[bytes]
Content = bytes | Iterator[bytes] | AsyncIterator[bytes]

CHUNK = 256 * 1024
SMALL = 64 * 1024


class SourceFailed(Exception):
    """The source of the caller's state, such as a file or a generator, raised ``error`` while its bytes were being
    sent; the request stayed incomplete.

    The error is also an attribute, because HTTP libraries drop ``__cause__`` when they pass an exception on.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class Body:
    """The bytes of one request. ``size`` (bytes) and ``sha256`` (hex) are None if they are known only after sending.
    ``source`` returns the bytes from their start; with ``once`` it can be called only once.
    """

    source: Callable[[], Content]
    size: int | None = None
    sha256: str | None = None
    once: bool = False
    taken: bool = field(default=False, init=False)
    transfer: Transfer | None = field(default=None, init=False)

    @property
    def spent(self) -> bool:
        """Return whether a retry is impossible: the source can be read only once, and reading has begun."""
        return self.once and self.taken

    @property
    def small(self) -> bool:
        """Return whether the body has so few bytes that it may be sent to a replica that perhaps refuses it."""
        return self.size is not None and self.size <= SMALL

    def begin(self) -> Content:
        """Return the bytes from their start. This call and the iteration raise `SourceFailed` if the source or the
        caller's progress function raises.
        """
        if self.transfer is not None:
            with _as_source_failed():
                self.transfer.begin(self.size)
        content = self.source()
        if isinstance(content, bytes):
            return content
        if isinstance(content, AsyncIterator):
            return self._watched_async(content)
        return self._watched(content)

    def report(self) -> None:
        """Call the caller's progress function with the number of bytes that were sent so far. The driver does this
        before it sends the next piece. Raises `SourceFailed` if the function raises.
        """
        if self.transfer is not None:
            with _as_source_failed():
                self.transfer.report()

    def sent(self, size: int) -> None:
        """Note that ``size`` bytes were sent."""
        if self.transfer is not None:
            self.transfer.add(size)

    def _watched(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        self.taken = True
        with _as_source_failed():
            if self.size is None:
                yield from chunks
            else:
                yield from _exactly(self.size, chunks)

    async def _watched_async(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self.taken = True
        with _as_source_failed():
            async for chunk in chunks:
                yield chunk


@contextmanager
def _as_source_failed() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise SourceFailed(error) from error


def body_of_bytes(data: bytes) -> Body:
    """Make a body from bytes in memory."""
    sha256 = hashlib.sha256(data).hexdigest()
    if len(data) <= SMALL:
        return Body(lambda: data, len(data), sha256)
    return Body(lambda: (data[i : i + CHUNK] for i in range(0, len(data), CHUNK)), len(data), sha256)


def body_of(state: object) -> Body:
    """Make the body for a state. A file or a collection is read once completely to compute its digest.

    Bytes, paths, seekable binary files and collections of bytes can be sent again; a generator, a pipe or another
    iterator can be sent only once. Raises TypeError for anything else, OSError if a file cannot be read.
    """
    if isinstance(state, (bytes, bytearray, memoryview)):
        return body_of_bytes(bytes(state))
    if isinstance(state, str):
        raise TypeError("a state is bytes: encode the text, or wrap the name of a file in pathlib.Path")
    if isinstance(state, os.PathLike):
        return _repeatable(lambda: _of_path(Path(state)))
    if hasattr(state, "read"):
        return _body_of_file(cast(BinaryIO, state))
    if isinstance(state, AsyncIterable):
        return Body(lambda: aiter(state), once=True)
    if isinstance(state, Iterable):
        chunks = iter(state)
        if chunks is state:
            return Body(lambda: _checked(chunks), once=True)
        return _repeatable(lambda: _checked(iter(state)))
    raise TypeError(f"a state is bytes, a path, a binary file or an iterable of bytes, not {type(state).__name__}")


def _exactly(size: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    left = size
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            break
        yield chunk
    if left != 0:
        raise DigestMismatch(
            Code.DIGEST_MISMATCH, f"the size of the state changed: it had {size} bytes before it was sent"
        )


def _repeatable(source: Callable[[], Iterator[bytes]]) -> Body:
    digest = hashlib.sha256()
    size = 0
    for chunk in source():
        digest.update(chunk)
        size += len(chunk)
    return Body(source, size, digest.hexdigest())


def _of_path(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(CHUNK), b"")


def _body_of_file(file: BinaryIO) -> Body:
    if not file.seekable():
        return Body(lambda: _checked(iter(lambda: file.read(CHUNK), b"")), once=True)
    start = file.tell()

    def again() -> Iterator[bytes]:
        file.seek(start)
        return _checked(iter(lambda: file.read(CHUNK), b""))

    return _repeatable(again)


def _checked(chunks: Iterable[object]) -> Iterator[bytes]:
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            raise TypeError(f"a state is made of bytes; its source gave {type(chunk).__name__}")
        yield bytes(chunk)
