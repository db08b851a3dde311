"""Request lines are found behind whatever comes before them, however it is cut, and nothing else is changed."""

from __future__ import annotations

import random
from urllib.parse import unquote_to_bytes

import httptools
import pytest

from milepost_server.http.connection.heads import RequestLines

BODIES = (
    b"",
    b"\r\n\r\n" * 50,
    b"0\r\n\r\n",
    "GET /ä HTTP/1.1\r\n\r\n".encode() * 20,
    bytes(range(256)) * 5,
    b"\xff\n\r\xfe",
)
SIZES = (b"%x", b"%X", b"000%x", b"%x;extension=5", b"%064x")
TRAILERS = (b"", b"X-Trailer: \xe4\r\n", b"A: b\r\nC: d\r\n")


class Parsed:
    """What a parser finds in what was cut."""

    def __init__(self, sent: bytes, cuts: list[int]) -> None:
        self.found: list[tuple[bytes, bytes]] = []
        self.fields: list[bytes] = []
        self._lines, self._parser = RequestLines(), httptools.HttpRequestParser(self)
        for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            piece, at = sent[begin:end], 0
            while at < len(piece):
                part, at = self._lines.cut(piece, at)
                self._parser.feed_data(part)

    def on_message_begin(self) -> None:
        self._url, self._body, self._size = b"", b"", 0
        self._chunked = False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append(value)
        self._size = int(value) if name == b"Content-Length" else self._size
        self._chunked = self._chunked or name == b"Transfer-Encoding"

    def on_headers_complete(self) -> None:
        self._lines.body_follows(None if self._chunked else self._size)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        assert self._lines.newest.startswith(b"P")
        self.found.append((unquote_to_bytes(self._url), self._body))
        self._lines.message_ended()


def chunks(choice: random.Random, body: bytes) -> bytes:
    sent, at = b"", 0
    while at < len(body):
        part = body[at : at + choice.choice((1, 2, 17, 4000))]
        sent += choice.choice(SIZES) % len(part) + b"\r\n" + part + b"\r\n"
        at += len(part)
    return sent + choice.choice((b"0", b"000", b"0;e=5")) + b"\r\n" + choice.choice(TRAILERS) + b"\r\n"


def message(choice: random.Random) -> tuple[bytes, tuple[bytes, bytes]]:
    target = "/" + "".join(choice.choices("aé日😀?%/\xa0", k=choice.randrange(9)))
    raw = target.replace("%", "%25").encode()
    body, framing = choice.choice(BODIES), choice.choice(("length", "chunks"))
    sent = choice.choice((b"", b"\r\n", b"\r\n\r\n\r\n")) + b"PUT " + raw + b" HTTP/1.1\r\n"
    sent += choice.choice((b"", b"X: \xe4\r\n"))
    if framing == "length":
        sent += (b"" if not body else b"Content-Length: %d\r\n" % len(body)) + b"\r\n" + body
    else:
        sent += b"Transfer-Encoding: chunked\r\n\r\n" + chunks(choice, body)
    return sent, (target.encode(), body)


@pytest.mark.parametrize("seed", range(200))
def test_whatever_comes_is_cut_where_messages_end(seed: int) -> None:
    choice = random.Random(seed)
    made = [message(choice) for _ in range(choice.randrange(1, 6))]
    sent = b"".join(each for each, _ in made)
    every = list(range(1, len(sent)))
    some = sorted(choice.sample(every, min(len(every), choice.randrange(8))))
    for cuts in ([], some, every):
        parsed = Parsed(sent, cuts)
        assert parsed.found == [each for _, each in made]
        assert {value for value in parsed.fields if not value.isascii()} <= {b"\xe4"}


@pytest.mark.parametrize("size", [b"", b"-5", b"+5", b"0x5", b"5_0", b"zz", b" 5", b"f" * 17, b"f" * 300, b"\xe4"])
def test_what_is_no_size_of_a_chunk_ends_in_the_parsers_refusal(size: bytes) -> None:
    sent = b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\n" + b"\r\n" * 300
    for cuts in ([], list(range(1, len(sent)))):
        with pytest.raises(httptools.HttpParserError):
            Parsed(sent, cuts)
