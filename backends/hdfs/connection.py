"""What is asked of one HDFS, over whichever route to a NameNode is taken.

It is the blocking client, in threads. The other one can stop the whole process when a connection breaks: one of its own
threads then holds a lock that the event loop waits for, and itself waits for the interpreter, which the loop holds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hdfs_native import Client, FileStatus, WriteOptions

from backends.contract import StorageUnavailable
from backends.hdfs.address import HdfsAddress
from backends.hdfs.errors import Broken, NotThere, translate_errors
from backends.hdfs.routes import HdfsRoutes, Route
from backends.hdfs.threads import Unanswered

if TYPE_CHECKING:
    from hdfs_native._internal import RawFileWriter

T = TypeVar("T")

UPLOADING: Final = ".uploading"
# The root is closed to others where it is made here; below it, its own permissions decide.
_PRIVATE_PERMISSION: Final = 0o700
_DIRECTORY_PERMISSION: Final = 0o755
_FILE_PERMISSION: Final = 0o644
_TRIES: Final = 3
_BACKOFF_SECONDS: Final = 0.1
# A step of writing may wait until DataNodes have synced a whole block to their disks.
_WRITING_DEADLINES: Final = 3


class HdfsConnection:
    """What reaches the files below the root of ``address``; ``deadline`` bounds each exchange in seconds."""

    def __init__(self, address: HdfsAddress, *, deadline: float) -> None:
        self.root = address.root
        self.uploading = f"{address.root}/{UPLOADING}"
        self._options = WriteOptions(replication=address.replication, permission=_FILE_PERMISSION, create_parent=False)
        self._routes = HdfsRoutes(address, deadline)
        self._deadline = deadline
        self._closed = False

    def close(self) -> None:
        """Move no more bytes. What is on its way may still be tidied up after."""
        self._closed = True

    async def ask(self, doing: str, call: Callable[[Client], T], *, set_up: bool = False) -> T:
        """What the NameNode answers; asked again if a connection breaks. It can be cancelled."""
        tries = 0
        while True:
            try:
                return await self._called(doing, call, set_up, lambda route, bound: route.calls.ask(bound))
            except Broken:
                tries += 1
                if tries == _TRIES:
                    raise
            await asyncio.sleep(_BACKOFF_SECONDS * 2**tries)

    async def act(self, doing: str, call: Callable[[Client], T], *, set_up: bool = False) -> T:
        """The same once only, and to its end."""
        return await self._called(doing, call, set_up, lambda route, bound: route.calls.act(bound))

    async def write(self, doing: str, step: Callable[[], T], *, set_up: bool = False) -> T:
        """One step of writing a file, to its end."""
        seconds = self._deadline * _WRITING_DEADLINES
        return await self._stepped(doing, set_up, lambda route: route.steps.act(step, seconds))

    async def read(self, doing: str, step: Callable[[], T], *, set_up: bool = False) -> T:
        """One step of reading a file. It can be cancelled."""
        return await self._stepped(doing, set_up, lambda route: route.steps.ask(step))

    async def create(self, path: str, *, set_up: bool = False) -> RawFileWriter:
        """Begin a file in the directory of temporary ones. Raises `NotThere` (that directory), `AlreadyThere`.

        Not by the client's own class for it, which completes the file when it is let go of, whatever happened.
        """
        return await self.act("create a file", lambda client: client.inner.create(path, self._options), set_up=set_up)

    async def status(self, path: str, *, set_up: bool = False) -> FileStatus:
        """What the NameNode knows of a file or directory. Raises `NotThere`."""
        return await self.ask(f"look at {path}", lambda client: client.get_file_info(path), set_up=set_up)

    async def is_there(self, path: str) -> bool:
        """Whether there is a file or directory."""
        try:
            await self.status(path)
        except NotThere:
            return False
        return True

    async def confirmed(self, path: str) -> bool:
        """Whether there is a file, and will be after a crash of the NameNode, which shows also what it has yet to log.

        A change is answered when it is logged, with all that came before; so one is made that changes nothing.
        """
        try:
            await self.ask(f"confirm {path}", lambda client: client.set_permission(path, _FILE_PERMISSION))
        except NotThere:
            return False
        return True

    async def rename(self, source: str, target: str, *, set_up: bool = False) -> None:
        """Move a file to where nothing is. Raises `NotThere` (source or directory), `AlreadyThere`."""
        await self.act("rename a file", lambda client: client.rename(source, target), set_up=set_up)

    async def move_aside(self, source: str, target: str) -> None:
        """The same for who can do with a move that is made twice, and then refused."""
        await self.ask("move a file aside", lambda client: client.rename(source, target))

    async def delete(self, path: str) -> None:
        """Remove a file or an empty directory; one that is gone already is fine. Raises `NotEmpty`."""
        await self.ask("delete a file", lambda client: client.delete(path))

    async def make_directory(self, path: str, *, private: bool = False, set_up: bool = False) -> None:
        """Make a directory with its missing parents; one that is there is fine."""
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
        """One call. If no answer comes, or the only NameNode that is asked does not serve, others are tried next."""
        route = self._routes.now
        with translate_errors("set up the HDFS client", set_up=set_up):
            client = await route.client()
        began = time.monotonic()
        try:
            with translate_errors(doing, set_up=set_up):
                answer = await run(route, partial(call, client))
        except Broken:
            if self._routes.takes_turns:
                self._routes.leave(route)
            raise
        except StorageUnavailable as error:
            if isinstance(error.__cause__, Unanswered):
                self._give_up(route, client)
            raise
        except asyncio.CancelledError:
            if time.monotonic() - began >= self._deadline / 2:  # by somebody who is less patient
                self._give_up(route, client)
            raise
        route.answers(client)
        return answer

    async def _stepped(self, doing: str, set_up: bool, run: Callable[[Route], Awaitable[T]]) -> T:
        if self._closed:
            raise StorageUnavailable("the blob store was closed")
        route = self._routes.now
        with translate_errors("set up the HDFS client", set_up=set_up):
            client = await route.client()
        try:
            with translate_errors(doing, set_up=set_up):
                return await run(route)
        except StorageUnavailable:
            if route.steps.full:  # it is a DataNode that is silent, but nothing could be read any more
                self._give_up(route, client)
            raise

    def _give_up(self, route: Route, client: Client) -> None:
        route.hangs(client)
        self._routes.leave(route)
