"""The answers to calls of handles on the short way: their bytes, made in one piece, counted and logged."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from milepost.errors import Problem
from milepost.wire import STATE_MEDIA_TYPE, Header, digest_header
from milepost_server.http.calls.usual import Call
from milepost_server.http.connection.short_exchange import Common, Finished
from milepost_server.http.noted_answers import NotedAnswers
from milepost_server.http.replies import common_fields, problem_response
from milepost_server.model.records import Handle
from milepost_server.rules.decisions import Answer

_LINES: Final = {200: b"200 OK", 201: b"201 Created", 204: b"204 No Content"}
_HEAD: Final = (
    b"HTTP/1.1 %b\r\n%bmilepost-term: %d\r\nmilepost-revision: %d\r\n%bx-request-id: %b\r\n"
    b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n\r\n"
)
_VERSION: Final = b'etag: "%b"\r\n'
_REPLAYED: Final = b"%b: true\r\n" % Header.REPLAYED.lower().encode("ascii")
_LENGTH: Final = b"content-length: %d\r\n"
_JSON: Final = b"content-length: %d\r\ncontent-type: application/json\r\n"
_STATE: Final = (
    b'etag: "%%b"\r\nrepr-digest: %%b\r\naccept-ranges: bytes\r\ncontent-length: %%d\r\ncontent-type: %b\r\n'
    % STATE_MEDIA_TYPE.encode("ascii")
)
_REVISION: Final = Header.REVISION.lower().encode("ascii")
_encode: Final = msgspec.json.Encoder().encode


class Asked(NamedTuple):
    """A call with the name of its caller, the monotonic time at which it came, and the fields that its answer begins
    with.
    """

    call: Call
    caller: str
    began: float
    common: Common


class CallAnswers(NotedAnswers):
    """Makes the answers to calls."""

    def answered(self, asked: Asked, status: int, answer: Answer, revision: int, term: int) -> bytes:
        """Return the bytes of an answer of the rules, which reflects ``revision`` and ``term``."""
        fields = b"" if answer.version is None else _VERSION % answer.version.encode("ascii")
        if answer.replayed:
            fields += _REPLAYED
        if status == 204:
            return self._made(asked, status, revision, term, fields)
        body = _encode(answer.body)
        return self._made(asked, status, revision, term, fields + _JSON % len(body)) + body

    def record(self, asked: Asked, answer: Answer) -> bytes:
        """Return the bytes of an answer that shows the present state."""
        return self.answered(asked, 200, answer, self._journal.head.revision, self._journal.term)

    def existence(self, asked: Asked, handle: Handle) -> bytes:
        """Return the bytes of the answer that a handle exists."""
        fields = _VERSION % handle.version.encode("ascii") + _LENGTH % 0
        return self._made(asked, 200, self._journal.head.revision, self._journal.term, fields)

    def state(self, asked: Asked, handle: Handle, data: bytes) -> bytes:
        """Return the bytes of the answer with the state of a handle."""
        digest = digest_header(handle.sha256).encode("ascii")
        fields = _STATE % (handle.version.encode("ascii"), digest, len(data))
        return self._made(asked, 200, self._journal.head.revision, self._journal.term, fields) + data

    def refused(self, asked: Asked, error: Problem, *, about_store: bool = True) -> Finished:
        """Return the answer to a call that was refused, or whose outcome is unknown."""
        response, journal = problem_response(error), self._journal
        self._note_call(asked, response.status_code)
        further = common_fields(asked.call.request_id, journal.term)
        if about_store and journal.lease_holds():
            further.append((_REVISION, b"%d" % journal.head.revision))
        return self._finished(response, asked.common, further)

    def _made(self, asked: Asked, status: int, revision: int, term: int, fields: bytes) -> bytes:
        self._note_call(asked, status)
        request_id = asked.call.request_id.encode("ascii")
        return _HEAD % (_LINES[status], self._beginning(asked.common), term, revision, fields, request_id)

    def _note_call(self, asked: Asked, status: int) -> None:
        call = asked.call
        self._note(call.method, call.path, status, asked.caller, asked.began, call.request_id)
