"""Both drivers with URLs that carry a signature. The servers are fakes: a real one does not tell what it was sent."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress

import pytest

import milepost
from milepost.wire import digest_header
from tests.client.core.world import RECORD
from tests.client.flavours import connected
from tests.support.network.scripted_server import (
    Behaviour,
    ScriptedServer,
    cut,
    cut_inside,
    head_of,
    reply,
    reply_unread,
)

SESSION = reply(201, {"session": "s1", "ttl": 60, "holder": "h"})
ENDED = reply(204)
HANDLE = reply(201, {**RECORD, "name": "h"})
STATE = bytes(range(256)) * 2000
MORE_THAN_BUFFERS_HOLD = STATE * 40
DIGEST = digest_header(hashlib.sha256(STATE).hexdigest())
QUERY = "X-Amz-Credential=me%2F2026%2Fs3&X-Amz-SignedHeaders=content-length%3Bhost&X-Amz-Signature=very-secret"
NAMED = {"timeout": 10.0, "token": "very-secret-token", "direct_above": 1000}
OWN = {"content-length", "if-none-match", "x-amz-checksum-sha256"}
EVERY_REQUEST = {"host", "user-agent", "accept", "accept-encoding", "connection"}


def stored() -> Behaviour:
    """What a blob store answers, which is not the service and does not say so."""
    return reply(200, Milepost_Term="")


def signed(blobs: ScriptedServer) -> str:
    return f"{blobs.url}/bucket/store%20s/key+1?{QUERY}"


def test_a_signed_put_has_its_own_headers_alone_and_its_url_is_nowhere_logged(
    flavour: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer([cut(), stored()]) as blobs:
        headers = {"Content-Length": str(len(STATE)), "If-None-Match": "*", "x-amz-checksum-sha256": "d"}
        upload = {"upload": "u1", "method": "PUT", "url": signed(blobs), "headers": headers, "expires_in": 900}
        with (
            ScriptedServer([SESSION, reply(201, upload), HANDLE, ENDED]) as server,
            connected(flavour, server.url, **NAMED) as client,
            client.session(holder="h", ttl=60, session_id="s1") as session,
        ):
            session.store("s").add_and_lock("h", STATE)
    for put in blobs.seen:
        assert (put.method, put.path, put.body) == ("PUT", f"/bucket/store%20s/key+1?{QUERY}", STATE)
        assert OWN <= set(put.headers) <= OWN | EVERY_REQUEST
    assert len(blobs.seen) == 2
    assert server.seen[2].headers["authorization"] == "Bearer very-secret-token"
    assert any("/bucket/" in record.getMessage() for record in caplog.records)
    assert "very-secret" not in caplog.text


def test_a_signed_get_has_no_headers_but_its_range_and_its_url_is_nowhere_logged(
    flavour: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    begun = cut(after=head_of(200, Content_Length=str(len(STATE)), Milepost_Term="") + STATE[:100_000], reset=False)
    span = f"bytes 100000-{len(STATE) - 1}/{len(STATE)}"
    rest = reply(206, STATE[100_000:], Content_Range=span, Milepost_Term="")
    with ScriptedServer([begun, rest]) as blobs:
        located = reply(307, Location=signed(blobs), ETag='"v1"', Repr_Digest=DIGEST)
        with ScriptedServer([located]) as server, connected(flavour, server.url, **NAMED) as client:
            assert client.store("s").read("h") == STATE
    first, second = blobs.seen
    assert first.path == second.path == f"/bucket/store%20s/key+1?{QUERY}"
    assert set(first.headers) <= EVERY_REQUEST
    assert set(second.headers) <= EVERY_REQUEST | {"range"}
    assert second.headers["range"] == "bytes=100000-"
    assert any("/bucket/" in record.getMessage() for record in caplog.records)
    assert "very-secret" not in caplog.text


def test_a_connection_that_breaks_under_the_bytes_is_made_anew(flavour: str) -> None:
    with ScriptedServer([cut_inside(), stored(), stored()]) as blobs:
        announced = reply(
            201, {"upload": "u1", "method": "PUT", "url": signed(blobs), "headers": {}, "expires_in": 900}
        )
        with (
            ScriptedServer([SESSION, announced, HANDLE, announced, HANDLE, ENDED]) as server,
            connected(flavour, server.url, **NAMED) as client,
            client.session(holder="h", ttl=60, session_id="s1") as session,
        ):
            session.store("s").add_and_lock("h", MORE_THAN_BUFFERS_HOLD)
            session.store("s").add_and_lock("h", STATE)
    assert [seen.body for seen in blobs.seen] == [None, MORE_THAN_BUFFERS_HOLD, STATE]


@pytest.mark.parametrize(("status", "announcements"), [(503, 1), (403, 2)])
def test_an_answer_that_comes_before_the_last_byte_is_heard(
    flavour: str, status: int, announcements: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The reset behind it may take it away before it is read, so not each one is; but out of a few, one is."""
    for _ in range(10):
        caplog.clear()
        if heard(flavour, status, announcements):
            break
    else:
        pytest.fail("none of ten answers was heard")
    assert not [record for record in caplog.records if record.name == "milepost.transfers"]


def heard(flavour: str, status: int, announcements: int) -> bool:
    """Whether the bytes were put, and so often announced as the answer asks for."""
    with ScriptedServer([reply_unread(status, Milepost_Term=""), stored()]) as blobs:
        announced = reply(
            201, {"upload": "u1", "method": "PUT", "url": signed(blobs), "headers": {}, "expires_in": 900}
        )
        with (
            ScriptedServer([SESSION, *[announced] * announcements, HANDLE, ENDED]) as server,
            connected(flavour, server.url, **NAMED) as client,
            client.session(holder="h", ttl=60, session_id="s1") as session,
            suppress(milepost.OutcomeUnknown),  # not heard: it got the second announcement for the answer to its add
        ):
            session.store("s").add_and_lock("h", MORE_THAN_BUFFERS_HOLD)
        bodies = [seen.body for seen in blobs.seen]
    asked = [seen.path for seen in server.seen if seen.path.endswith("/uploads")]
    return bodies == [None, MORE_THAN_BUFFERS_HOLD] and len(asked) == announcements


def test_a_blob_store_behind_a_wall_is_passed_by(flavour: str, caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedServer([]) as gone:
        url = signed(gone)
    upload = {"upload": "u1", "method": "PUT", "url": url, "headers": {}, "expires_in": 900}
    answers = [SESSION, reply(201, upload), HANDLE, HANDLE, ENDED]
    with (
        ScriptedServer(answers) as server,
        connected(flavour, server.url, **NAMED) as client,
        client.session(holder="h", ttl=60, session_id="s1") as session,
    ):
        session.store("s").add_and_lock("h", STATE)
        session.store("s").add_and_lock("h", STATE)
    bodies = [seen.body for seen in server.seen if seen.path.startswith("/v1/stores/s/handles/")]
    assert bodies.count(STATE) == 2
    assert [record.levelno for record in caplog.records if record.name == "milepost.transfers"] == [logging.WARNING]
    assert "very-secret" not in caplog.text
