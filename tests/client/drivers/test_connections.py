"""Both drivers over real connections that break. The server is a fake: the real one does not break at a given byte."""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import milepost
from milepost.wire import digest_header
from testbed.ports import Port
from tests.client.core.world import RECORD
from tests.client.flavours import connected
from tests.support.network.scripted_server import (
    Behaviour,
    Hangup,
    ScriptedServer,
    Seen,
    cut,
    deaf,
    full,
    head_of,
    reply,
    reply_unread,
    stall,
    trickle,
    trickle_head,
)

SESSION = reply(201, {"session": "s1", "ttl": 60, "holder": "h"})
ENDED = reply(204)
HANDLE = reply(201, {**RECORD, "name": "h"})
STATE = bytes(range(256)) * 2000
DIGEST = digest_header(hashlib.sha256(STATE).hexdigest())


def add(flavour: str, server: ScriptedServer, state: Any, timeout: float = 10.0) -> milepost.Handle:
    """A session, an add, and the end of the session."""
    with (
        connected(flavour, server.url, timeout=timeout) as client,
        client.session(holder="h", ttl=60, session_id="s1") as session,
    ):
        handle = session.store("s").add_and_lock("h", state)
    assert isinstance(handle, milepost.Handle)
    return handle


@pytest.mark.parametrize("reset", [True, False])
def test_a_write_whose_answer_is_cut_off_is_repeated_under_its_key(flavour: str, reset: bool) -> None:
    with ScriptedServer([SESSION, cut(reset=reset), HANDLE, ENDED]) as server:
        add(flavour, server, b"hello")
    first, second = server.seen[1:3]
    assert (first.method, first.path, first.body) == (second.method, second.path, second.body)
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert (first.headers["milepost-attempt"], second.headers["milepost-attempt"]) == ("1", "2")
    assert first.headers["content-digest"] == digest_header(hashlib.sha256(b"hello").hexdigest())


def test_a_kept_connection_that_was_closed_meanwhile_does_no_harm(flavour: str) -> None:
    def then_close(behaviour: Behaviour) -> Behaviour:
        def behave(server: ScriptedServer, connection: socket.socket, seen: Any, receive: Any) -> None:
            behaviour(server, connection, seen, receive)
            raise Hangup  # a request that is on its way by now is lost, and comes again

        return behave

    with ScriptedServer([then_close(SESSION), HANDLE, ENDED]) as server:
        add(flavour, server, b"hello")
    assert server.seen[-2].body == b"hello"


def test_a_write_that_is_never_answered_is_of_unknown_outcome_within_its_deadline(flavour: str) -> None:
    with ScriptedServer([SESSION, stall(), stall(), stall(), stall(), ENDED]) as server:
        begun = time.monotonic()
        with pytest.raises(milepost.OutcomeUnknown):
            add(flavour, server, b"hello", timeout=1.5)
        assert time.monotonic() - begun < 20.0


NO_ENCODING = "http://xn--a"
"""It says that it is a name in another script, encoded, and is none; what httpx raises of it is no error of its own."""


def test_an_answer_that_leads_to_what_is_no_name_settles_nothing(flavour: str) -> None:
    """Neither of a write, which may have been done before, nor of a read."""
    astray = reply(302, Location=NO_ENCODING, Milepost_Term="")
    with ScriptedServer([SESSION, astray, HANDLE, ENDED]) as server:
        add(flavour, server, b"hello")
    assert [seen.headers.get("milepost-attempt") for seen in server.seen[1:3]] == ["1", "2"]
    redirects = reply(307, Location=f"{NO_ENCODING}/v1/stores/s/handles/h")
    with (
        ScriptedServer([redirects] * 1000) as server,
        connected(flavour, server.url, timeout=0.5) as client,
        pytest.raises((milepost.ConnectionFailed, milepost.DeadlineExceeded)),
    ):
        client.store("s").get("h")


def test_of_the_addresses_of_a_name_one_that_is_silent_leaves_time_for_the_others(
    flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer([reply(200, {**RECORD, "name": "h"})] * 10) as server, ExitStack() as ends:
        port = int(server.url.rpartition(":")[2])
        silent = [f"127.0.0.{number}" for number in (2, 3)]
        for host in silent:
            ends.enter_context(full(host, port))
        resolve = socket.getaddrinfo

        def resolved(host: Any, *arguments: Any, **named: Any) -> list[Any]:
            hosts = [*silent, "127.0.0.1"] if host in ("many.test", b"many.test") else [host]
            return [each for name in hosts for each in resolve(name, *arguments, **named)]

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        with connected(flavour, f"http://many.test:{port}", timeout=20.0) as client:
            assert client.store("s").get("h").name == "h"


def test_a_name_that_is_not_looked_up_takes_no_longer_than_the_call_may(
    flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, resolve = threading.Event(), socket.getaddrinfo

    def never(host: Any, *arguments: Any, **named: Any) -> list[Any]:
        if host in ("silent.test", b"silent.test"):
            assert over.wait(60.0)
            host = "127.0.0.1"
        return resolve(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", never)
    with connected(flavour, "http://silent.test:1", timeout=1.0) as client:
        with pytest.raises((milepost.ConnectionFailed, milepost.DeadlineExceeded)):
            client.store("s").get("h")
        assert not over.is_set()
        over.set()


def test_an_address_that_is_no_name_is_one_that_nobody_answers_at(flavour: str) -> None:
    with connected(flavour, NO_ENCODING, timeout=0.5) as client, pytest.raises(milepost.ConnectionFailed):
        client.store("s").get("h")


def test_a_read_that_is_never_answered_passes_its_deadline(flavour: str) -> None:
    with (
        ScriptedServer([stall(), stall(), stall(), stall()]) as server,
        connected(flavour, server.url, timeout=1.0) as client,
        pytest.raises(milepost.DeadlineExceeded),
    ):
        client.store("s").get("h")


def test_an_answer_that_trickles_does_not_stretch_the_deadline(flavour: str) -> None:
    with ScriptedServer([trickle(b"x" * 1000, 0.2)] * 5) as server:
        begun = time.monotonic()
        with (
            connected(flavour, server.url, timeout=1.0) as client,
            pytest.raises(milepost.DeadlineExceeded),
        ):
            client.store("s").get("h")
        assert time.monotonic() - begun < 20.0


def test_a_head_that_trickles_does_not_stretch_the_deadline_either(flavour: str) -> None:
    with ScriptedServer([trickle_head(0.2)] * 5) as server:
        begun = time.monotonic()
        with (
            connected(flavour, server.url, timeout=1.0) as client,
            pytest.raises(milepost.DeadlineExceeded),
        ):
            client.store("s").get("h")
        assert time.monotonic() - begun < 20.0


def test_a_write_that_found_no_connection_was_not_applied(flavour: str) -> None:
    with (
        full() as url,
        connected(flavour, url, timeout=1.0) as client,
        pytest.raises(milepost.ConnectionFailed),
    ):
        client.session(holder="h", ttl=60, session_id="s1").__enter__()


def test_a_write_whose_bytes_never_all_set_out_was_not_applied(flavour: str) -> None:
    """They fill the buffers on the way, and the server does not read on."""
    with (
        ScriptedServer([SESSION, *[deaf()] * 9]) as server,
        connected(flavour, server.url, timeout=1.5, direct_above=None) as client,
        client.session(holder="h", ttl=60, session_id="s1") as session,
        pytest.raises(milepost.DeadlineExceeded),
    ):
        session.store("s").add_and_lock("h", [b"x" * 1_000_000] * 40)


def test_nobody_there(flavour: str) -> None:
    with (
        connected(flavour, f"http://{Port().address}", timeout=0.5) as client,
        # the last try may have next to no time left
        pytest.raises(milepost.ConnectionFailed, match=r"ConnectError|no connection within"),
    ):
        client.store("s").get("h")


def test_a_redirect_is_followed_even_if_it_cuts_off_the_bytes_on_their_way(flavour: str) -> None:
    def lead(server: ScriptedServer, connection: socket.socket, seen: Seen, receive: Callable[[], None]) -> None:
        by_method = {"POST": HANDLE, "HEAD": reply(404), "DELETE": ENDED}
        by_method[seen.method](server, connection, seen, receive)

    state = b"x" * 900_000
    with ScriptedServer([lead] * 9) as leader:
        away = reply_unread(307, Location=f"{leader.url}/v1/stores/s/handles/h")
        with ScriptedServer([SESSION, *[away] * 9]) as follower:
            add(flavour, follower, state)
    taken = [seen for seen in leader.seen if seen.method == "POST"]
    assert [seen.body for seen in taken] == [state]
    assert taken[0].headers["milepost-session"] == "s1"


def test_a_generator_is_sent_in_chunks_after_the_leader_was_found(flavour: str) -> None:
    with ScriptedServer([SESSION, reply(404), HANDLE, ENDED]) as server:
        add(flavour, server, (part for part in (b"hel", b"lo")))
    assert [seen.method for seen in server.seen] == ["POST", "HEAD", "POST", "DELETE"]
    assert server.seen[2].body == b"hello"
    assert "content-length" not in server.seen[2].headers


def test_an_error_of_the_callers_own_source_comes_through_and_the_request_stays_incomplete(flavour: str) -> None:
    def source() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise ZeroDivisionError("the source broke")

    def answer(server: ScriptedServer, connection: socket.socket, seen: Seen, receive: Callable[[], None]) -> None:
        adds = HANDLE if "/handles/" in seen.path else SESSION
        by_method = {"POST": adds, "HEAD": reply(404), "DELETE": ENDED}
        by_method[seen.method](server, connection, seen, receive)

    with ScriptedServer([answer] * 9) as server, pytest.raises(ZeroDivisionError, match="the source broke"):
        add(flavour, server, source())
    (write,) = [seen for seen in server.seen if (seen.method, seen.path) == ("POST", "/v1/stores/s/handles/h")]
    assert write.body is None  # the end of the session, on another connection, may have been seen before it


def test_a_state_that_is_cut_off_is_gone_on_with_by_range(flavour: str) -> None:
    head = {"ETag": '"v1"', "Repr_Digest": DIGEST}
    begun = cut(after=head_of(200, Content_Length=str(len(STATE)), **head) + STATE[:100_000], reset=False)
    rest = reply(206, STATE[100_000:], Content_Range=f"bytes 100000-{len(STATE) - 1}/{len(STATE)}", **head)
    with ScriptedServer([begun, rest]) as server, connected(flavour, server.url) as client:
        assert client.store("s").read("h") == STATE
    assert server.seen[1].headers["range"] == "bytes=100000-"
    assert server.seen[1].headers["if-match"] == '"v1"'
    assert server.seen[1].headers["accept-encoding"] == "identity"


def test_a_state_that_stays_cut_off_is_truncated(flavour: str) -> None:
    head = {"ETag": '"v1"', "Repr_Digest": DIGEST, "Content_Length": str(len(STATE))}
    begun = cut(after=head_of(200, **head) + STATE[:1000], reset=False)
    with (
        ScriptedServer([begun, *[cut()] * 100]) as server,
        connected(flavour, server.url, timeout=1.0) as client,
        pytest.raises(milepost.StateTruncated, match=f"1000 of {len(STATE)}"),
    ):
        client.store("s").read("h")


def test_leaving_a_state_early_ends_its_connection(flavour: str) -> None:
    large = b"x" * 20_000_000
    digest = digest_header(hashlib.sha256(large).hexdigest())
    with ScriptedServer([reply(200, large, ETag='"v1"', Repr_Digest=digest)]) as server:
        with connected(flavour, server.url) as client, client.store("s").open("h") as chunks:
            assert next(chunks)
            assert not server.gone.is_set()
        assert server.gone.wait(20.0)


def test_neither_token_nor_state_is_ever_logged(flavour: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer([SESSION, cut(), HANDLE, ENDED]) as server:
        named = {"timeout": 10.0, "token": "very-secret-token"}
        with (
            connected(flavour, server.url, **named) as client,
            client.session(holder="h", ttl=60, session_id="s1") as session,
        ):
            session.store("s").add_and_lock("h", b"very-secret-state")
            assert "very-secret" not in repr(vars(client)) + repr(vars(session))
    assert server.seen[1].headers["authorization"] == "Bearer very-secret-token"
    assert caplog.records
    assert "very-secret" not in caplog.text


def test_a_closed_client_says_so(flavour: str) -> None:
    with connected(flavour, "http://127.0.0.1:1") as client:
        client.close()
        with pytest.raises(milepost.Closed):
            client.status()


def test_a_client_that_is_closed_while_it_connects_leaves_no_connection(
    flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up, closed = threading.Event(), threading.Event()
    resolve = socket.getaddrinfo

    def slowly(host: Any, *arguments: Any, **named: Any) -> list[Any]:
        if host not in ("slow.test", b"slow.test"):
            return resolve(host, *arguments, **named)
        looked_up.set()
        assert closed.wait(10.0)
        return resolve("127.0.0.1", *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    with ScriptedServer([reply(200, {**RECORD, "name": "h"})]) as server, ThreadPoolExecutor(1) as caller:
        port = int(server.url.rpartition(":")[2])
        with connected(flavour, f"http://slow.test:{port}", timeout=20.0) as client:
            call = caller.submit(client.store("s").get, "h")
            assert looked_up.wait(10.0)
            client.close()
            closed.set()
            with pytest.raises(milepost.Closed):
                call.result(20.0)
    assert server.seen == [], "nothing is asked in the name of a client that is closed"


def test_a_handshake_that_never_ends_leaves_no_connection(flavour: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10.0)
        port = listener.getsockname()[1]
        with connected(flavour, f"https://127.0.0.1:{port}", timeout=0.5) as client:
            with pytest.raises((milepost.ConnectionFailed, milepost.DeadlineExceeded)):
                client.store("s").get("h")
            ended, _ = listener.accept()
            with ended:
                ended.settimeout(10.0)
                while ended.recv(65536):
                    pass  # what it said before it gave up; the end comes while the client is still open
