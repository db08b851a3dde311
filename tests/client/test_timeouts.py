"""Each call ends within its own timeout, whatever the client's is.

The server is a fake that takes requests in and never answers: the real one always does. A call that did not keep to its
timeout would take the client's ten minutes, and the test's own time limit would end it.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

import milepost
from milepost.checkpoints import CheckpointRegistry
from milepost.wire import digest_header
from tests.client.drivers.test_connections import SESSION
from tests.client.flavours import connected
from tests.support.network.scripted_server import ScriptedServer, stall, trickle

CLIENTS = 600.0
SHORT = 0.3
GIVEN: dict[str, Any] = {
    "name": "h",
    "version": "v1",
    "state": b"state",
    "session_id": "s2",
    "source": "other",
    "snapshot": "@1",
    "job": "j",
    "revision": 1,
    "wait": 0.0,
    "path": "a/b",
    "content": b"bytes",
    "wait_for_end epoch": 1,
    "directory": "checkpoint",
    "rows": {7: 1200},
    "entries": [],
    "saved": datetime(2026, 1, 1, tzinfo=timezone.utc),
}
"""What a parameter is given, or that of one method."""
NO_ANSWER = (milepost.DeadlineExceeded, milepost.OutcomeUnknown, milepost.ConnectionFailed)


def calls(kind: type[Any]) -> list[str]:
    """The methods with a timeout, but for the one that asks nobody unless there are cells (test_cells.py)."""
    return [
        name
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name != "of_job" and "timeout" in inspect.signature(member).parameters
    ]


def made(owner: type[Any], thing: Any, method: str) -> None:
    """Make a call of the blocking ``owner`` with a short timeout, to its end."""
    needed = {
        parameter.name: GIVEN.get(f"{method} {parameter.name}", GIVEN.get(parameter.name))
        for parameter in inspect.signature(getattr(owner, method)).parameters.values()
        if parameter.default is inspect.Parameter.empty and parameter.name != "self"
    }
    assert None not in needed.values(), needed
    result = getattr(thing, method)(**needed, timeout=SHORT)
    if hasattr(result, "__enter__"):
        with result as entered:
            list(entered)
    elif isinstance(result, Iterator):
        list(result)


@pytest.mark.parametrize("method", calls(milepost.Client))
def test_calls_of_a_client(flavour: str, method: str) -> None:
    with ScriptedServer([stall()] * 50) as server:
        with connected(flavour, server.url, timeout=CLIENTS) as client, pytest.raises(NO_ANSWER):
            made(milepost.Client, client, method)
        server.cut()


@pytest.mark.parametrize("method", calls(milepost.StateHandleStore))
def test_calls_of_a_store(flavour: str, method: str) -> None:
    with silent_after_the_session(flavour) as session, pytest.raises(NO_ANSWER):
        made(milepost.StateHandleStore, session.store("s"), method)


@pytest.mark.parametrize("method", calls(milepost.JobFiles))
def test_calls_of_the_files(flavour: str, method: str) -> None:
    with silent_after_the_session(flavour) as session, pytest.raises(NO_ANSWER):
        made(milepost.JobFiles, session.store("s").files, method)


class silent_after_the_session:
    """A session of a server that never answers anything else."""

    def __init__(self, flavour: str) -> None:
        self._server = ScriptedServer([SESSION, *[stall()] * 50])
        self._flavour = flavour

    def __enter__(self) -> Any:
        self._server.__enter__()
        self._client = connected(self._flavour, self._server.url, timeout=CLIENTS)
        self._session = self._client.__enter__().session(holder="h", ttl=60, session_id="s1")
        return self._session.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._session.close(timeout=SHORT)
        self._session.__exit__(None, None, None)
        self._client.__exit__(None, None, None)
        self._server.__exit__(None, None, None)


def test_a_reading_ends_in_time_however_few_bytes_come(flavour: str) -> None:
    """The head comes at once, and then a byte now and then, each in good time."""
    state = b"x" * 100_000
    head = {"ETag": '"v1"', "Repr_Digest": digest_header(hashlib.sha256(state).hexdigest())}
    with (
        ScriptedServer([trickle(state, 0.05, **head)]) as server,
        connected(flavour, server.url, timeout=CLIENTS) as client,
        pytest.raises(milepost.DeadlineExceeded, match="of the 100000 bytes"),
    ):
        client.store("s").read("h", timeout=3.0)


def test_a_reading_that_is_opened_may_take_longer_than_its_timeout(flavour: str) -> None:
    state = b"x" * 30
    head = {"ETag": '"v1"', "Repr_Digest": digest_header(hashlib.sha256(state).hexdigest())}
    with (
        ScriptedServer([trickle(state, 0.1, **head)]) as server,
        connected(flavour, server.url, timeout=CLIENTS) as client,
        client.store("s").open("h", timeout=2.5) as chunks,
    ):
        assert b"".join(chunks) == state


@pytest.mark.parametrize("method", ["add", "recover", "shutdown"])
def test_calls_of_a_registry(method: str) -> None:
    given: dict[str, tuple[Any, ...]] = {"add": (1, b"state"), "recover": (), "shutdown": (False,)}
    with silent_after_the_session("blocking") as session:
        registry = CheckpointRegistry(session.store("s"))
        if method == "shutdown":
            registry.shutdown(False, timeout=SHORT)  # nothing to release, so nobody is asked
            return
        with pytest.raises(NO_ANSWER):
            getattr(registry, method)(*given[method], timeout=SHORT)


def test_a_timeout_of_none_is_the_clients(flavour: str) -> None:
    with ScriptedServer([stall()] * 50) as server:
        with connected(flavour, server.url, timeout=SHORT) as client, pytest.raises(NO_ANSWER):
            client.status(timeout=None)
        server.cut()
