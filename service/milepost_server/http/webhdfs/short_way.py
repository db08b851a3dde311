"""The short way of the requests for a checkpoint file: they are answered in front of the parser.

A request goes the short way if it is of the usual form and complete, if this replica leads, and if nothing but a commit
needs to be waited for. Any other request is answered as every request is, and so is one that must be refused before its
commit. So the short way decides nothing that the routes do not decide as well, and both give the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from milepost.operations.replicas import PUBLISH_FILE
from milepost_server.http.access.job_tokens import Job
from milepost_server.http.access.permission import may_look, may_write
from milepost_server.http.access.tokens import Principal
from milepost_server.http.bodies import MOST_JSON_BYTES
from milepost_server.http.connection.known_heads import KnownHead, KnownHeads
from milepost_server.http.connection.short_exchange import Answered, Common, Missing
from milepost_server.http.requests import MOST_REMEMBERED_BYTES, Context
from milepost_server.http.webhdfs.datanode.peer import PROOF, Publish, checked
from milepost_server.http.webhdfs.looks import look_of
from milepost_server.http.webhdfs.parameters import epoch_in, in_tree, place_of
from milepost_server.http.webhdfs.quick_writes import QuickWrites, Upload
from milepost_server.http.webhdfs.responses import PREFIX
from milepost_server.http.webhdfs.short_answers import Asked, ShortAnswers
from milepost_server.operations.trees import At

MOST_HEAD_BYTES: Final = 4096
"""The most bytes of the head of a request that goes the short way."""

_BEGINNINGS: Final = (b"GET /webhdfs/v1/", b"PUT /webhdfs/v1/", b"DELETE /webhdfs/", b"POST /datanodes/")
"""The beginnings of the requests that may go the short way, which are equally long."""

_END: Final = b"\r\n\r\n"
_PATH: Final = rb"/webhdfs/v1/([A-Za-z0-9._~/=+,:@-]*)"
_GET: Final = re.compile(rb"GET %b\?([A-Za-z0-9._~=&-]{0,%d}) HTTP/1\.1" % (_PATH, MOST_REMEMBERED_BYTES))
_PUT: Final = re.compile(rb"PUT %b\?([A-Za-z0-9._~=&/%%-]*) HTTP/1\.1" % _PATH)
_DELETE: Final = re.compile(rb"DELETE %b\?([A-Za-z0-9._=&-]*) HTTP/1\.1" % _PATH)
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]+")
"""The token of a transfer, at the end of a query. One pattern for the whole line would look for it at each byte."""
_WITH_BODY: Final = b"?op=CREATE&data=true&"
_FIRST_ATTEMPT: Final = b"&attempt=1 HTTP/1.1"
_MOST_QUERY_BYTES: Final = 1024
"""The most bytes of the query of a write, without the token."""
_ONE_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,6})\r\n")
_AFTER_CHUNK: Final = b"\r\n0\r\n\r\n"
_MESSAGE: Final = re.compile(
    rb"POST %b HTTP/1\.1\r\nHost: [!-~]+\r\nContent-Length: ([0-9]{1,6})\r\nContent-Type: application/json\r\n"
    rb"%b: ([0-9a-f]{64})\r\n\r\n" % (PUBLISH_FILE.path.encode("ascii"), PROOF.encode("ascii"))
)
"""The head of a message by which a data node asks to publish a file; see `Exchanges`."""

_MOST_HALVES: Final = 256
"""The most tokens that are remembered until the body comes; a token that is forgotten is verified again."""
_ANYBODY: Final = (None, "")

Way = Callable[[bytes, int, Common, float], Answered]
"""Answers a request whose head ends at a position in the data, and that came at a monotonic time."""


class ShortWay:
    """Answers requests on the short way. The answers are counted and logged like any other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._journal = context.journal
        self._gets, self._puts, self._deletes = (
            KnownHeads(context.hosts, method) for method in ("GET", "PUT", "DELETE")
        )
        self._writes = QuickWrites(context)
        self._answers = ShortAnswers(context)
        self._halves: dict[bytes, Upload] = {}
        ways = (self._look, self._write, self._delete, self._publish)
        self._ways: dict[bytes, Way] = dict(zip(_BEGINNINGS, ways, strict=True))

    def answer(self, data: bytes, common: Common) -> Answered:
        """Return the answer to a request. ``data`` is all that came from the client, after complete requests. Raises a
        problem if the request must be refused.
        """
        way = self._ways.get(data[: len(_BEGINNINGS[0])])
        if way is None:
            return None
        began = self._context.clock()
        end = data.find(_END, 0, MOST_HEAD_BYTES) + len(_END)
        return None if end < len(_END) else way(data, end, common, began)

    def _look(self, data: bytes, end: int, common: Common, began: float) -> Answered:
        request = _without_body(data, end, _GET, self._gets)
        if request is None:
            return None
        target, head = request
        look, state = look_of(target[2]), self._journal.state_if_leading()
        if look is None or state is None or (who := self._who(head)) is None:
            return None
        owner, caller = who
        path = target[1].decode("ascii")
        place = place_of(path)
        if isinstance(place, At) and not (may_look(owner, place.store) and not state.unloaded(place.store)):
            return None
        found = look(state, place)
        asked = Asked("GET", f"{PREFIX}/{path}", caller, began, common)
        return None if found is None else self._answers.made(asked, *found)

    def _write(self, data: bytes, end: int, common: Common, began: float) -> Answered:
        line, _, fields = data[:end].partition(b"\r\n")
        known = self._puts.get_with_length(fields)
        if known is None or not known[0].is_usual:
            return None
        head, length = known
        if end == len(data) and length != 0 and _WITH_BODY in line and line.endswith(_FIRST_ATTEMPT):
            # all else is looked at once the body is here, and then once only
            return Missing.BODY if self._journal.leading and self._who(head) is not None else None
        target = _PUT.fullmatch(line)
        if target is None:
            return None
        query, token = target[2], None
        before, found, last = query.rpartition(b"&token=")
        if found and _TOKEN.fullmatch(last) is not None:
            query, token = before, last
        if len(query) > _MOST_QUERY_BYTES:
            return None
        write = self._permitted("PUT", head, target[1], common, began)
        if write is None:
            return None
        asked, at, epoch = write
        if token is not None:
            upload = self._halves.pop(token, None)
            if upload is None or (upload.at, upload.token.epoch) != (at, epoch):
                upload = self._writes.upload(at, epoch, query, token.decode("ascii"))
            content = None if upload is None else _content(data, end, length)
            if upload is None or not isinstance(content, bytes):
                if upload is not None and content is Missing.BODY:
                    self._remember(token, upload)
                return content
            putting = partial(self._writes.put, upload, content)
            return self._answers.finished(asked, putting) if self._writes.takes(content) else None
        if (whole := self._writes.whole(query)) is not None:
            content = _content(data, end, length)
            if not isinstance(content, bytes):
                return content
            writing = partial(self._writes.put_whole, at, epoch, whole, content)
            return self._answers.finished(asked, writing) if self._writes.takes(content) else None
        if length != 0 or end != len(data):
            return None
        if query.startswith(b"op=RENAME&"):
            renaming = self._writes.rename(at, epoch, query)
            return None if renaming is None else self._answers.finished(asked, renaming)
        location = self._writes.create(at, epoch, target[1], query)
        return None if location is None else self._answers.made(asked, 307, b"", location)

    def _delete(self, data: bytes, end: int, common: Common, began: float) -> Answered:
        request = _without_body(data, end, _DELETE, self._deletes)
        if request is None or not request[1].is_usual:
            return None
        target, head = request
        write = self._permitted("DELETE", head, target[1], common, began)
        if write is None:
            return None
        asked, at, epoch = write
        deleting = self._writes.delete(at, epoch, target[2])
        return None if deleting is None else self._answers.finished(asked, deleting)

    def _permitted(
        self, method: str, head: KnownHead, path: bytes, common: Common, began: float
    ) -> tuple[Asked, At, int | None] | None:
        """Return a write that its caller may do, with its place and its epoch; None if it must be read as every other
        request is. Raises the problems of `in_tree` and `epoch_in`.
        """
        state = self._journal.state_if_leading()
        if state is None or (who := self._who(head)) is None:
            return None
        owner, caller = who
        place = path.decode("ascii")
        at = in_tree(place_of(place))
        epoch = epoch_in(head.epochs, at)
        if isinstance(owner, Job):
            if epoch not in (None, owner.epoch):
                return None
            epoch = owner.epoch
        if not may_write(owner, at.store) or state.unloaded(at.store):
            return None
        asked = Asked(method, f"{PREFIX}/{place}", caller, began, common, at if epoch is None else None)
        return asked, at, epoch

    def _remember(self, token: bytes, upload: Upload) -> None:
        """Remember a token that was verified with the head of a request, until the body comes."""
        self._halves[token] = upload
        if len(self._halves) > _MOST_HALVES:
            del self._halves[next(iter(self._halves))]

    def _publish(self, data: bytes, end: int, common: Common, began: float) -> Answered:
        head, key = _MESSAGE.fullmatch(data, 0, end), self._context.data_nodes.key
        body = data[end:]
        is_whole = head is not None and int(head[1]) == len(body) <= MOST_JSON_BYTES
        if head is None or not is_whole or not key.is_known or self._journal.state_if_leading() is None:
            return None
        checked(body, head[2].decode("ascii"), key.known)
        try:
            message = msgspec.json.decode(body, type=Publish)
        except msgspec.DecodeError:
            return None
        asked = Asked("POST", PUBLISH_FILE.path, "", began, common, by_replica=True)
        return self._answers.finished(asked, partial(self._writes.publish, message))

    def _who(self, head: KnownHead) -> tuple[Job | Principal | None, str] | None:
        """Return the owner of the token in this head, None without tokens, and the name in the access log. Return None
        if the owner is not known without waiting, or the request is not allowed.
        """
        authentication = self._context.authentication
        if not authentication.required:
            return _ANYBODY if head.host_is_known else None
        owner = None if head.digest is None else authentication.remembered(head.digest)
        return None if owner is None else (owner, owner.name)


def _without_body(
    data: bytes, end: int, line: re.Pattern[bytes], heads: KnownHeads
) -> tuple[re.Match[bytes], KnownHead] | None:
    """Return what ``line`` finds in the first line of a request that has no body, and the request's fields; None if it
    must be read as every other request is.
    """
    first, _, fields = data.partition(b"\r\n")
    target = line.fullmatch(first) if end == len(data) else None
    head = heads.get(fields) if target is not None else None
    return None if target is None or head is None or head.length != 0 else (target, head)


def _content(data: bytes, at: int, length: int | None) -> bytes | Missing | None:
    """Return the body of a request, which begins at ``at`` and has ``length`` bytes, or None if it comes in chunks. It
    must be complete and the last of ``data``, and have at most one chunk; else the result is None.
    """
    if at == len(data) and length != 0:
        return Missing.BODY
    if length is not None:
        return data[at:] if len(data) - at == length else None
    chunk = _ONE_CHUNK.match(data, at)
    if chunk is None:
        return None
    begins, ends = chunk.end(), chunk.end() + int(chunk[1], 16)
    return data[begins:ends] if begins < ends and data[ends:] == _AFTER_CHUNK else None
