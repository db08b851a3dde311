"""Where the bytes of a state come from, and whether they can be sent again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from milepost.errors import DigestMismatch
from milepost.wire import Code

State = bytes | bytearray | memoryview | os.PathLike[str] | BinaryIO | Iterable[bytes]
AsyncState = State | AsyncIterable[bytes]
Content = bytes | Iterator[bytes] | AsyncIterator[bytes]

CHUNK = 256 * 1024
SMALL = 64 * 1024


class SourceFailed(Exception):
    """The caller's own source of bytes raised ``error`` while it was sent; the request stayed incomplete.

    Not by ``__cause__`` alone, which HTTP libraries take away when they pass an exception on.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class Body:
    """The bytes of one request. ``size`` (bytes) and ``sha256`` (hex) are None where only sending them will tell."""

    source: Callable[[], Content]
    size: int | None = None
    sha256: str | None = None
    once: bool = False
    taken: bool = field(default=False, init=False)

    @property
    def spent(self) -> bool:
        """Whether the bytes cannot be sent any more: they come once, and the first of them was taken."""
        return self.once and self.taken

    @property
    def small(self) -> bool:
        """Whether sending the bytes in vain costs next to nothing."""
        return self.size is not None and self.size <= SMALL

    def begin(self) -> Content:
        """The bytes from their start on. Iterating over them raises `SourceFailed`."""
        content = self.source()
        if isinstance(content, bytes):
            return content
        if isinstance(content, AsyncIterator):
            return self._watched_async(content)
        return self._watched(content)

    def _watched(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        self.taken = True
        try:
            if self.size is None:
                yield from chunks
            else:
                yield from _exactly(self.size, chunks)
        except Exception as error:
            raise SourceFailed(error) from error

    async def _watched_async(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self.taken = True
        try:
            async for chunk in chunks:
                yield chunk
        except Exception as error:
            raise SourceFailed(error) from error


def body_of_bytes(data: bytes) -> Body:
    """A body that is in memory."""
    sha256 = hashlib.sha256(data).hexdigest()
    if len(data) <= SMALL:
        return Body(lambda: data, len(data), sha256)
    return Body(lambda: (data[i : i + CHUNK] for i in range(0, len(data), CHUNK)), len(data), sha256)


def body_of(state: object) -> Body:
    """The body for a state. Reads a file or a collection once through, for its digest.

    Bytes, paths, seekable binary files and collections of bytes can be sent again; a generator, a pipe or another
    iterator is sent once. Raises TypeError for anything else, OSError where a file cannot be read.
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
        raise DigestMismatch(Code.DIGEST_MISMATCH, f"the state had {size} bytes before it was sent, and then had not")


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
