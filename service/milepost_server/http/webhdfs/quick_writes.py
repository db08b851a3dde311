"""The writes of a checkpoint file on the short way: CREATE, which is answered with the address for the bytes, the PUT
of the bytes there, CREATE that has the bytes with it, RENAME, and DELETE.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.datastructures import QueryParams

from milepost.errors import Problem
from milepost_server.http.requests import MOST_REMEMBERED_BYTES, Context
from milepost_server.http.webhdfs.datanode.peer import Publish
from milepost_server.http.webhdfs.datanode.routes import published_as_asked
from milepost_server.http.webhdfs.datanode.transfer_tokens import PARAMETER, UploadToken
from milepost_server.http.webhdfs.parameters import flag, onto_existing, place_of, replaces, text
from milepost_server.http.webhdfs.responses import PLAIN_QUERY, PREFIX, put_at
from milepost_server.http.webhdfs.whole_files import DATA
from milepost_server.model.requests.trees import NOW, Begun, OntoExisting
from milepost_server.operations.trees import At

_RENAME: Final = re.compile(
    rb"op=RENAME(?:&user\.name=[A-Za-z0-9._-]*)?&destination=((?:[A-Za-z0-9._~/-]|%2F|%3D)+)((?:&renameoptions=[A-Z]+)?)"
)
_DELETE: Final = re.compile(rb"op=DELETE(?:&user\.name=[A-Za-z0-9._-]*)?(?:&recursive=(true|false))?")
_WHOLE: Final = re.compile(
    rb"op=CREATE&data=true(&createparent=false)?&overwrite=(true|false)&key=([A-Za-z0-9._-]{1,64})&attempt=1"
)
"""The query of the first attempt to put a whole file, as Milepost's client for Spark writes it. A repeated one goes the
long way, where its refusals have an outcome of their own.
"""
_NO_PARENTS: Final = Begun(parents=False)
_ADDRESS: Final = b"%%b%b/%%b?%%b&%b=%%b" % (PREFIX.encode("ascii"), PARAMETER.encode("ascii"))
"""The address that takes the bytes of a file: a data node, the path and the query of the CREATE, and a token."""
_LONG: Final = frozenset({PARAMETER, DATA, "noredirect", "excludedatanodes"})
"""The parameters of a CREATE that goes the long way."""


class Written(NamedTuple):
    """What the answer to a write says: its status, its body, and the place that it names, if any."""

    status: int
    body: bytes
    location: bytes = b""


class Creation(NamedTuple):
    """What a CREATE asks for."""

    overwrite: bool
    parents: bool


class Whole(NamedTuple):
    """What a CREATE asks for that has the bytes of the file with it, and its idempotency key."""

    begun: Begun
    overwrite: bool
    key: str


class Upload(NamedTuple):
    """A file whose bytes come with a request, and the token in the address of the request, also as it was sent."""

    at: At
    token: UploadToken
    text: str


_BOOLEAN: Final = {said: msgspec.json.encode({"boolean": said}) for said in (False, True)}


@lru_cache(1024)
def _creation(query: bytes) -> Creation | None:
    """Return what a query asks for if it is that of a CREATE; None for any other, or one that must be refused."""
    given = QueryParams(query.decode("ascii"))
    try:
        if (
            PLAIN_QUERY.fullmatch(query) is None
            or (text(given, "op") or "").upper() != "CREATE"
            or _LONG & given.keys()
        ):
            return None
        return Creation(replaces(given), flag(given, "createparent", absent=True))
    except Problem:
        return None


@lru_cache(64)
def _onto(options: bytes) -> OntoExisting:
    return onto_existing(QueryParams(options.decode("ascii")))


class QuickWrites:
    """Does the writes of the short way. Whoever calls has checked the caller's rights."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._trees = context.operations.trees
        self._data_nodes = context.data_nodes

    def create(self, at: At, epoch: int | None, path: bytes, query: bytes) -> bytes | None:
        """Return the address to which a CREATE is redirected; None if the query asks for something else. ``path`` is
        the path of the request below `/webhdfs/v1/`. Raises the problems of `TreeOperations.may_put`.
        """
        asked = _creation(query) if len(query) <= MOST_REMEMBERED_BYTES else None
        if asked is None or not self._data_nodes.key.is_known:
            return None
        begun = self._trees.may_put(at, epoch, overwrite=asked.overwrite, parents=asked.parents)
        data_node, token = self._data_nodes.signed_upload_token(at, epoch, overwrite=asked.overwrite, begun=begun)
        return _ADDRESS % (data_node.encode("latin-1"), path, query, token.encode("ascii"))

    def upload(self, at: At, epoch: int | None, query: bytes, token: str) -> Upload | None:
        """Return the file that a token permits to put, by its address; None if the address is not one of `create`.
        Raises the problems of `DataNodes.verified`.
        """
        if len(query) > MOST_REMEMBERED_BYTES or _creation(query) is None or not self._data_nodes.key.is_known:
            return None
        found = self._data_nodes.verified(token, UploadToken, at)
        return Upload(at, found, token) if found.epoch == epoch else None

    def takes(self, content: bytes) -> bool:
        """Return whether a file of these bytes is taken here: one that gets no blob of its own."""
        return self._data_nodes.own.keeps_with_record(len(content))

    async def put(self, upload: Upload, content: bytes) -> Written:
        """Publish a file of these bytes. Raises the problems of `DataNode.take`."""
        await self._data_nodes.own.take_whole(upload.token, upload.text, content)
        return Written(201, b"", put_at(upload.at).encode("latin-1"))

    def whole(self, query: bytes) -> Whole | None:
        """Return what a query asks for if it is that of the first attempt to put a whole file; None for any other."""
        asked = _WHOLE.fullmatch(query)
        if asked is None:
            return None
        return Whole(NOW if asked[1] is None else _NO_PARENTS, asked[2] == b"true", asked[3].decode("ascii"))

    async def put_whole(self, at: At, epoch: int | None, whole: Whole, content: bytes) -> Written:
        """Publish a file of these bytes, which came with the CREATE. Raises the problems of `DataNode.put_small`."""
        await self._data_nodes.own.put_small(
            at, epoch, content, overwrite=whole.overwrite, key=whole.key, begun=whole.begun
        )
        return Written(201, b"", put_at(at).encode("latin-1"))

    async def publish(self, message: Publish) -> Written:
        """Publish a file whose bytes another replica has received. Raises the problems of `Publisher.publish`."""
        return Written(200, await published_as_asked(self._context, message))

    def rename(self, at: At, epoch: int | None, query: bytes) -> Callable[[], Awaitable[Written]] | None:
        """Return what renames a file as a query asks for; None if that must be read as every other query is. Raises
        problems for a target that no file can have.
        """
        asked = _RENAME.fullmatch(query)
        if asked is None:
            return None
        target, onto = place_of(unquote_to_bytes(asked[1]).decode("ascii")), _onto(asked[2])
        if not asked[1].startswith((b"/", b"%2F")) or not isinstance(target, At) or target.store != at.store:
            return None
        return partial(self._renamed, at, target.path, epoch, onto)

    async def _renamed(self, at: At, target: str, epoch: int | None, onto: OntoExisting) -> Written:
        renamed = await self._trees.rename(at, target, epoch, onto)
        return Written(200, _BOOLEAN[renamed] if onto is OntoExisting.ANSWER_FALSE else b"")

    def delete(self, at: At, epoch: int | None, query: bytes) -> Callable[[], Awaitable[Written]] | None:
        """Return what deletes a file or a directory as a query asks for; None if that must be read as every other query
        is.
        """
        asked = _DELETE.fullmatch(query)
        return None if asked is None else partial(self._deleted, at, epoch, recursive=asked[1] == b"true")

    async def _deleted(self, at: At, epoch: int | None, *, recursive: bool) -> Written:
        return Written(200, _BOOLEAN[await self._trees.delete(at, epoch, recursive=recursive)])
