"""The bytes of answers."""

from __future__ import annotations

import pytest
from starlette.responses import Response

from milepost_server.http.connection.answers import head, whole


def test_a_head_has_its_fields_in_their_order() -> None:
    assert head(404, [(b"b", b"1"), (b"a", b"\tx \xe9")]) == b"HTTP/1.1 404 Not Found\r\nb: 1\r\na: \tx \xe9\r\n\r\n"


@pytest.mark.parametrize("field", [(b"a", b"1\r\nb: 2"), (b"a", b"1\n"), (b"a", b"\0"), (b"a: b", b"1"), (b"", b"1")])
def test_nothing_gets_into_a_head_that_would_be_another_line(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="no field"):
        head(200, [field])


def test_a_whole_answer_closes_its_connection() -> None:
    sent = whole(Response(b"hello", 400, {"Connection": "keep-alive"}))
    assert sent == b"HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
