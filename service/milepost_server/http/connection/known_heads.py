"""The header fields of requests, remembered by their bytes, so that equal ones are parsed only once.

Hadoop's client sends the same fields with each request of one kind; only the request line differs.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final

import httptools

from milepost.errors import Problem
from milepost.wire import Header, job_epoch_of
from milepost_server.http.access.hosts import Hosts
from milepost_server.http.access.tokens import bearer_of, digest_of
from milepost_server.http.connection.heads import Framing
from milepost_server.http.requests import Fields

MOST_KNOWN: Final = 1024
"""The most heads that are remembered; new heads replace the oldest."""

_USUAL: Final = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"authorization",
        b"connection",
        b"content-length",
        b"content-type",
        b"host",
        b"transfer-encoding",
        b"user-agent",
        b"x-hadoop-accept-ez",
    }
)
"""The fields that do not change how a file is written, apart from those that are read here."""
PLAIN: Final = frozenset(
    {b"accept", b"accept-encoding", b"authorization", b"connection", b"content-type", b"host", b"user-agent"}
)
"""The fields that clients of every kind send. Any other field may change what a request means."""

_KEEPING: Final = ("", "keep-alive")
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: (0|[1-9][0-9]{0,8})(?=\r\n)")
_OF_BODIES: Final = frozenset({b"content-length", b"transfer-encoding"})


@dataclass(frozen=True, slots=True)
class KnownHead:
    """The fields of a request after which the connection stays open.

    ``digest`` is that of the bearer token, None without a token. ``host_is_known`` is whether the server answers to the
    header Host if there are no tokens. ``length`` is the number of bytes of the body, None if they come in chunks, and
    ``says_length`` is whether a field says so. ``epochs`` has the jobs and the epochs that the names of fields carry.
    ``is_usual`` is whether a write with these fields is one like any other: no further field changes what it means.
    ``is_plain`` is whether the fields are some of `PLAIN`, none of them twice; ``accept`` and ``content_type`` are
    empty without that field.
    """

    digest: bytes | None
    host_is_known: bool
    length: int | None
    says_length: bool
    epochs: tuple[tuple[str, str], ...]
    is_usual: bool
    is_plain: bool
    accept: str
    content_type: str


class KnownHeads:
    """Remembers header fields of requests with one ``method`` by a keyed hash of their bytes, since they may contain a
    token. ``hosts`` checks the header Host; None accepts every name.
    """

    def __init__(self, hosts: Hosts | None, method: str) -> None:
        self._hosts = hosts
        self._method = method
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, KnownHead | None] = {}

    def get(self, fields: bytes) -> KnownHead | None:
        """Return the head whose fields have these bytes, up to and with the empty line; None if a request with these
        fields must be read as every other request is.
        """
        name = hashlib.blake2b(fields, digest_size=16, key=self._key).digest()
        try:
            return self._known[name]
        except KeyError:
            head = self._known[name] = self._read(fields)
            while len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            return head

    def get_with_length(self, fields: bytes) -> tuple[KnownHead, int | None] | None:
        """Return what `get` does, and the number of bytes of the body, None if they come in chunks.

        Heads that differ only in their ``Content-Length`` are remembered as one: files have many lengths.
        """
        found = _LENGTH.search(fields)
        if found is None or not has_plain_lines(fields):
            head = self.get(fields)
            return None if head is None else (head, head.length)
        head = self.get(fields[: found.start()] + fields[found.end() :])
        return None if head is None or head.says_length else (head, int(found[1]))

    def _read(self, given: bytes) -> KnownHead | None:
        """Parse the fields as those of a request by the rules of `HttpProtocol`."""
        reader = _Reader()
        try:
            reader.parser.feed_data(b"%b / HTTP/1.1\r\n%b" % (self._method.encode(), given))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return None
        if not reader.is_one_head:
            return None
        fields = Fields(reader.fields)
        if Header.REQUEST_ID in fields or fields.get("connection").lower() not in _KEEPING:
            return None
        host = fields.get("host") if "host" in fields else None
        try:
            digest = digest_of(bearer_of(fields.get("authorization"))) if "authorization" in fields else None
        except Problem:
            return None
        said = [(name, job_epoch_of(name.decode("latin-1"))) for name, _ in reader.fields]
        return KnownHead(
            digest,
            self._knows(host),
            reader.length,
            any(name in _OF_BODIES for name, _ in said),
            tuple(epoch for _, epoch in said if epoch is not None),
            all(name in _USUAL or epoch is not None for name, epoch in said),
            len(PLAIN.intersection(name for name, _ in said)) == len(said),
            fields.get("accept"),
            fields.get("content-type"),
        )

    def _knows(self, host: str | None) -> bool:
        try:
            if self._hosts is not None:
                self._hosts.check(host, (), self._method)
        except Problem:
            return False
        return True


def has_plain_lines(fields: bytes) -> bool:
    """Return whether each field is one line, so that a line can be taken out without a change of what the others
    mean.
    """
    lines = fields.count(b"\r\n")
    return lines == fields.count(b"\n") == fields.count(b"\r") and b"\n " not in fields and b"\n\t" not in fields


class _Reader:
    """Reads the head of one request."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.fields: list[tuple[bytes, bytes]] = []
        self._framing = Framing()
        self._begun = self._complete = 0
        self._is_plain = False

    @property
    def is_one_head(self) -> bool:
        """Whether the data was exactly the head of one request that `HttpProtocol` accepts."""
        has_ended = self._complete == (self.length == 0)
        return self._begun == 1 and has_ended and self._is_plain

    @property
    def length(self) -> int | None:
        """The number of bytes of the request's body; None if they come in chunks."""
        return self._framing.length

    def on_message_begin(self) -> None:
        """Count a request."""
        self._begun += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header field."""
        name, value = name.lower(), value.strip(b" \t")
        self.fields.append((name, value))
        if name in self._framing.FIELDS:
            self._framing.note(name, value)

    def on_headers_complete(self) -> None:
        """Note whether the request is one that keeps the connection open, and whose body comes at once."""
        framing, parser = self._framing, self.parser
        self._is_plain = (
            framing.fault(parser, b"/") is None
            and not framing.expects_continue(parser)
            and not parser.should_upgrade()
            and parser.should_keep_alive()
        )

    def on_message_complete(self) -> None:
        """Count the end of a request."""
        self._complete += 1
