"""What objects look like in a debugger or a notebook: one line, useful, without a secret, and nobody is asked."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import milepost
from milepost.checkpoints import CheckpointRegistry
from milepost.core.effects import Send
from milepost.core.upload import Upload
from milepost.drivers.connections import Connections
from milepost.errors import CheckpointDamaged, problem_from
from milepost.types import FileCredential
from milepost.wire import Code
from tests.client.conftest import Service
from tests.client.flavours import Disguised, connected

SECRET = "very-secret"


def shown(thing: Any) -> str:
    """The repr, which is one line and has no secret in it."""
    text = repr(thing._target if isinstance(thing, Disguised) else thing)
    assert "\n" not in text
    assert SECRET not in text
    assert " at 0x" not in text
    return text


@pytest.fixture
def store(service: Service, flavour: str, name: str) -> Iterator[Any]:
    with (
        connected(flavour, service.url, token=SECRET, timeout=20.0) as client,
        client.session(holder="a driver") as session,
    ):
        yield session.store(name)


def test_a_client_shows_its_addresses(flavour: str) -> None:
    with connected(flavour, ["http://a:1", "http://b:2/prefix"], token=SECRET, timeout=7.5) as client:
        text = shown(client)
        assert text.endswith("Client of http://a:1, http://b:2/prefix, timeout 7.5 s>")
    assert shown(client).endswith("timeout 7.5 s, closed>")


def test_a_session_shows_how_long_it_lives(service: Service, flavour: str) -> None:
    with connected(flavour, service.url, token=SECRET) as client:
        session = client.session(holder="a driver", ttl=60)
        if flavour == "asynchronous":
            assert shown(session) == "<AsyncSession held by 'a driver', not begun>"
        with session as begun:
            assert begun.id in shown(begun)
            assert " of 60 s left>" in shown(begun)
        assert "lost: it was closed>" in shown(begun)


def test_a_store_shows_who_acts_in_it_and_under_which_epoch(store: Any, name: str) -> None:
    before = shown(store)
    assert f"StateHandleStore {name!r}, in session {store.session_id}>" in before
    store.campaign()
    assert shown(store) == before[:-1] + f", under epoch {store.epoch}>"
    assert f"JobFiles {name!r}" in shown(store.files)


def test_a_store_that_is_only_read(service: Service, flavour: str) -> None:
    with connected(flavour, service.url) as client:
        assert "StateHandleStore 's', for reading>" in shown(client.store("s"))


def test_a_registry_shows_its_newest_checkpoint(blocking: milepost.Client, name: str) -> None:
    with blocking.session(holder="a") as session:
        registry = CheckpointRegistry(session.store(name), retain=2)
        assert shown(registry) == f"<CheckpointRegistry of {name!r}, checkpoints: none>"
        registry.add(7, b"state")
        registry.add(8, b"state")
        assert shown(registry) == f"<CheckpointRegistry of {name!r}, checkpoints: 2, the latest is 8>"


def test_records_show_their_members(store: Any) -> None:
    handle = store.add_and_lock("latest", b"state", labels={"batch": "7"})
    assert f"version={handle.version!r}" in shown(handle)
    assert f"epoch={store.campaign().epoch}" in shown(store.current_epoch())


@pytest.mark.parametrize(
    "holding",
    [
        FileCredential(3, "store/3", SECRET),
        Upload("u1", f"https://s3/blob?X-Amz-Signature={SECRET}", {"Authorization": SECRET}, 900.0),
        Send("GET", f"https://s3/blob?X-Amz-Signature={SECRET}", {"Authorization": f"Bearer {SECRET}"}, None, 3.0),
        Connections(proxy=f"http://user:{SECRET}@proxy:3128"),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_holds_a_secret_keeps_it(holding: Any) -> None:
    assert shown(holding).startswith(f"{type(holding).__name__}(")


@pytest.mark.parametrize("address", [f"http://user:{SECRET}@host:1", f"ftp://user:{SECRET}@host", f"{SECRET}@host"])
def test_an_address_with_credentials_is_refused_without_quoting_it(address: str) -> None:
    with pytest.raises(ValueError, match="must not hold credentials") as raised:
        milepost.Client(address)
    assert SECRET not in str(raised.value)


def test_a_proxy_with_credentials_is_refused_without_quoting_it() -> None:
    with pytest.raises(ValueError, match="a proxy is an http") as raised:
        milepost.Client("http://a:1", proxy=f"user:{SECRET}@host:3128")
    assert SECRET not in str(raised.value)


def test_errors_show_what_became_of_a_write_and_which_request_it_was() -> None:
    error = problem_from(503, {"type": "urn:milepost:outcome-unknown", "detail": "who knows"})
    assert shown(error) == "OutcomeUnknown('outcome-unknown: who knows', status=503, outcome='unknown')"
    error.request_id = "abc-1"
    assert shown(error).endswith(", outcome='unknown', request_id='abc-1')")
    again = pickle.loads(pickle.dumps(error))
    assert (repr(again), again.request_id) == (repr(error), "abc-1")
    lost = milepost.ConnectionFailed("nobody there")
    assert shown(lost) == "ConnectionFailed('nobody there')"
    lost.request_id = "abc-2"
    assert pickle.loads(pickle.dumps(lost)).request_id == "abc-2"
    assert shown(CheckpointDamaged("two files", ["a", "b"])) == "CheckpointDamaged('two files')"
    assert problem_from(404, {"type": f"urn:milepost:{Code.NOT_EXIST.value}"}).request_id is None
