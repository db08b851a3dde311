"""Sends requests to one HDFS, over the current route to its NameNodes.

It uses the blocking client in threads, because the asynchronous client can deadlock when a connection breaks: one of
its threads then holds a lock that the event loop waits for, and waits itself for Python's global interpreter lock,
which the event loop holds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hdfs_native import Client, FileStatus, WriteOptions

from milepost_backends.contract import StorageRefused, StorageUnavailable
from milepost_backends.hdfs.address import HdfsAddress
from milepost_backends.hdfs.errors import ConnectionBroken, PathMissing, translate_errors
from milepost_backends.hdfs.routes import HdfsRoutes, Route, Unanswered

if TYPE_CHECKING:
    from hdfs_native._internal import RawFileWriter

T = TypeVar("T")

UPLOADING: Final = ".uploading"
# The mode of a new root directory. It keeps other users out of everything below.
_PRIVATE_PERMISSION: Final = 0o700
_DIRECTORY_PERMISSION: Final = 0o755
_FILE_PERMISSION: Final = 0o644
_TRIES: Final = 3
_BACKOFF_SECONDS: Final = 0.1
# The deadlines that a step of writing may take, since DataNodes may have to sync a whole block before they answer.
_WRITING_DEADLINES: Final = 3


class HdfsConnection:
    """A connection to the files below the root directory of ``address``.

    ``deadline`` bounds each exchange with a server in seconds. Several methods take two arguments for the translation
    of errors: ``doing`` completes the message "cannot …", and ``set_up`` is true while the blob store is being opened.
    """

    def __init__(self, address: HdfsAddress, *, deadline: float) -> None:
        self.root = address.root
        self.uploading = f"{address.root}/{UPLOADING}"
        self._options = WriteOptions(replication=address.replication, permission=_FILE_PERMISSION, create_parent=False)
        self._routes = HdfsRoutes(address, deadline)
        self._deadline = deadline
        self._closed = False

    def close(self) -> None:
        """Refuse to read or write bytes from now on. Requests to a NameNode stay possible, so that running puts can
        clean up.
        """
        self._closed = True

    async def ask(self, doing: str, call: Callable[[Client], T], *, set_up: bool = False) -> T:
        """Send a request to a NameNode by ``call``, and return the answer. If a connection breaks, send it again.

        If the task is cancelled, it does not wait for the answer. ``doing`` completes the error message "cannot …", and
        ``set_up`` is true while the blob store is being opened.
        """
        tries = 0
        while True:
            try:
                return await self._called(doing, call, set_up, lambda route, bound: route.calls.ask(bound))
            except ConnectionBroken:
                tries += 1
                if tries == _TRIES:
                    raise
            await asyncio.sleep(_BACKOFF_SECONDS * 2**tries)

    async def act(self, doing: str, call: Callable[[Client], T], *, set_up: bool = False) -> T:
        """Send a request to a NameNode by ``call``, only once, and return the answer.

        A cancellation is passed on when the request has ended. ``doing`` completes the error message "cannot …", and
        ``set_up`` is true while the blob store is being opened.
        """
        return await self._called(doing, call, set_up, lambda route, bound: route.calls.act(bound))

    async def write(self, doing: str, step: Callable[[], T], *, set_up: bool = False) -> T:
        """Make one step of writing a file, ``step``, and return its result.

        A cancellation is passed on when the step has ended. ``doing`` completes the error message "cannot …", and
        ``set_up`` is true while the blob store is being opened.
        """
        seconds = self._deadline * _WRITING_DEADLINES
        return await self._stepped(doing, set_up, lambda route: route.steps.act(step, seconds))

    async def read(self, doing: str, step: Callable[[], T], *, set_up: bool = False) -> T:
        """Make one step of reading a file, ``step``, and return its result.

        If the task is cancelled, it does not wait for the step. ``doing`` completes the error message "cannot …", and
        ``set_up`` is true while the blob store is being opened.
        """
        return await self._stepped(doing, set_up, lambda route: route.steps.ask(step))

    async def create(self, path: str, *, set_up: bool = False) -> RawFileWriter:
        """Begin a file in the directory of temporary files. Raises `PathMissing` (no such directory), `PathExists`.

        The result is the client's raw writer: its usual writer completes the file when it is garbage-collected, even
        after an error. ``set_up`` is true while the blob store is being opened.
        """
        return await self.act("create a file", lambda client: client.inner.create(path, self._options), set_up=set_up)

    async def status(self, path: str, *, set_up: bool = False) -> FileStatus:
        """Return what the NameNode knows of a file or directory, such as its size. Raises `PathMissing`.

        ``set_up`` is true while the blob store is being opened.
        """
        return await self.ask(f"look at {path}", lambda client: client.get_file_info(path), set_up=set_up)

    async def is_there(self, path: str) -> bool:
        """Return whether there is a file or directory at ``path``."""
        try:
            await self.status(path)
        except PathMissing:
            return False
        return True

    async def confirmed(self, path: str) -> bool:
        """Return whether the file at ``path`` exists, and will still exist after a crash of the NameNode.

        A NameNode also shows changes that are not in its edit log yet, and a crash undoes these. But it answers a
        change only when this change and all earlier ones are in the log. So this call makes a change without effect: it
        sets the permission that the file already has.
        """
        try:
            await self.ask(f"confirm {path}", lambda client: client.set_permission(path, _FILE_PERMISSION))
        except PathMissing:
            return False
        return True

    async def rename(self, source: str, target: str, *, set_up: bool = False) -> None:
        """Move a file to a free path. Raises `PathMissing` (no such file, or no directory for it), `PathExists`.

        ``set_up`` is true while the blob store is being opened.
        """
        await self.act("rename a file", lambda client: client.rename(source, target), set_up=set_up)

    async def move_aside(self, source: str, target: str) -> None:
        """Move a file as `rename` does, but send the request again if a connection breaks.

        The caller must expect an error of a second request, although the first one has moved the file.
        """
        await self.ask("move a file aside", lambda client: client.rename(source, target))

    async def delete(self, path: str) -> None:
        """Delete a file or an empty directory. An absent one is no error. Raises `DirectoryNotEmpty`."""
        await self.ask("delete a file", lambda client: client.delete(path))

    async def make_directory(self, path: str, *, private: bool = False, set_up: bool = False) -> None:
        """Make a directory with its missing parents. An existing one is no error.

        With ``private``, no other user may use the directory. ``set_up`` is true while the blob store is being opened.
        """
        permission = _PRIVATE_PERMISSION if private else _DIRECTORY_PERMISSION
        await self.ask(
            f"make {path}", lambda client: client.mkdirs(path, permission, create_parent=True), set_up=set_up
        )

    async def _called(
        self,
        doing: str,
        call: Callable[[Client], T],
        set_up: bool,
        run: Callable[[Route, Callable[[], T]], Awaitable[T]],
    ) -> T:
        """Make one call to a NameNode: ``run`` carries out ``call`` in a thread of the current route.

        If the call gets no answer, or only one from a standby NameNode, later calls use another route.
        """
        route = self._routes.now
        with translate_errors("set up the HDFS client", set_up=set_up):
            client = await route.client()
        began = time.monotonic()
        try:
            with translate_errors(doing, set_up=set_up):
                answer = await run(route, partial(call, client))
        except ConnectionBroken:
            if self._routes.takes_turns:
                self._routes.leave(route)
            raise
        except StorageUnavailable as error:
            if isinstance(error.__cause__, Unanswered):
                self._give_up(route, client)
            raise
        except asyncio.CancelledError:
            # a call that was cancelled after half of its deadline probably hangs, and its caller has a shorter deadline
            if time.monotonic() - began >= self._deadline / 2:
                self._give_up(route, client)
            raise
        route.note_answer(client)
        return answer

    async def _stepped(self, doing: str, set_up: bool, run: Callable[[Route], Awaitable[T]]) -> T:
        if self._closed:
            raise StorageRefused("the blob store was closed")
        route = self._routes.now
        with translate_errors("set up the HDFS client", set_up=set_up):
            client = await route.client()
        try:
            with translate_errors(doing, set_up=set_up):
                return await run(route)
        except StorageUnavailable:
            # leave the route only if no other step can begin on it, and not if a single DataNode does not answer
            if route.steps.full:
                self._give_up(route, client)
            raise

    def _give_up(self, route: Route, client: Client) -> None:
        route.note_hang(client)
        self._routes.leave(route)
