"""The client of one HDFS, made anew when a NameNode has gone silent.

It is the blocking client, in threads. The other one can stop the whole process when a connection breaks: one of its own
threads then holds a lock that the event loop waits for, and itself waits for the interpreter, which the loop holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hdfs_native import Client, FileStatus, WriteOptions

from backends.blobs.hdfs_address import HdfsAddress
from backends.blobs.hdfs_errors import Broken, NotThere, border
from backends.blobs.hdfs_threads import PatientThreads
from backends.contract import StorageUnavailable

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


class Connection:
    """What reaches the files below the root of ``address``; ``deadline`` bounds each exchange in seconds."""

    def __init__(self, address: HdfsAddress, *, deadline: float) -> None:
        self.root = address.root
        self.uploading = f"{address.root}/{UPLOADING}"
        self._options = WriteOptions(replication=address.replication, permission=_FILE_PERMISSION, create_parent=False)
        self._address = address
        self._threads = PatientThreads(deadline)
        self._making = asyncio.Lock()
        self._client: Client | None = None
        self._gave_up = False
        self._closed = False

    def close(self) -> None:
        """Move no more bytes. What is on its way may still be tidied up after."""
        self._closed = True

    async def ask(self, doing: str, call: Callable[[Client], T], *, set_up: bool = False) -> T:
        """What the NameNode answers; asked again if a connection breaks. It can be cancelled."""
        tries = 0
        while True:
            client = await self._connected(set_up)
            try:
                with border(doing, set_up=set_up):
                    return await self._threads.ask(partial(call, client))
            except Broken:
                tries += 1
                if tries == _TRIES:
                    raise
            except StorageUnavailable as error:
                self._give_up(client, error)
                raise
            await asyncio.sleep(_BACKOFF_SECONDS * 2**tries)

    async def act(self, doing: str, call: Callable[[Client], T], *, set_up: bool = False) -> T:
        """The same once only, and to its end."""
        client = await self._connected(set_up)
        try:
            with border(doing, set_up=set_up):
                return await self._threads.act(partial(call, client))
        except StorageUnavailable as error:
            self._give_up(client, error)
            raise

    async def write(self, doing: str, step: Callable[[], T], *, set_up: bool = False) -> T:
        """One step of writing a file, to its end."""
        self._check_open()
        with border(doing, set_up=set_up):
            return await self._threads.act(step)

    async def read(self, doing: str, step: Callable[[], T], *, set_up: bool = False) -> T:
        """One step of reading a file. It can be cancelled."""
        self._check_open()
        with border(doing, set_up=set_up):
            return await self._threads.ask(step)

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

    async def _connected(self, set_up: bool) -> Client:
        async with self._making:
            if self._client is None:
                with border("set up the HDFS client", set_up=set_up):
                    self._client = await self._threads.ask(self._made)
            return self._client

    def _made(self) -> Client:
        """Reads files, and may look up names and credentials."""
        service = self._address.name_service
        # The first of the NameNodes may be the silent one, and the client would ask it first again.
        shuffled = {f"dfs.client.failover.random.order.{service}": "true"} if self._gave_up and service else None
        return Client(self._address.file_system, shuffled)

    def _give_up(self, client: Client, error: StorageUnavailable) -> None:
        """Where no answer came in time: the client would wait for ever on that connection. So the next one is made."""
        if isinstance(error.__cause__, TimeoutError) and self._client is client:
            self._client = None
            self._gave_up = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageUnavailable("the blob store was closed")
