"""The real service behind a proxy that answers in its place: what was written is found, or said to be unknown."""

from __future__ import annotations

from typing import Any

import pytest

import milepost
from tests.client.flavours import connected
from tests.support.network.gateway import Fault, Gateway, Request

pytestmark = pytest.mark.later


def writes(request: Request) -> bool:
    return request.method == "POST" and "/handles/" in request.target


@pytest.mark.parametrize("status", [200, 401, 403, 404, 409, 412, 500, 503])
def test_a_write_that_a_proxy_forwards_and_then_answers_itself_is_found_by_its_key(
    flavour: str, proxy: Gateway, name: str, status: int
) -> None:
    proxy(Fault(writes, times=1, in_its_place=(status, "the proxy says so")))
    with connected(flavour, proxy.url, timeout=30.0) as client, client.session() as session:
        added = session.store(name).add_and_lock("h", b"state")
        assert client.store(name).read("h", added.version) == b"state"
        assert added.locks == (session.id,)


def test_a_write_that_only_the_proxy_answers_is_of_unknown_outcome(
    flavour: str, proxy: Gateway, blocking: milepost.Client, name: str
) -> None:
    proxy(Fault(writes, in_its_place=(404, "the proxy says so")))
    with connected(flavour, proxy.url, timeout=5.0) as client, client.session() as session:
        with pytest.raises(milepost.OutcomeUnknown):
            session.store(name).add_and_lock("h", b"state")
        assert blocking.store(name).read("h") == b"state"


@pytest.mark.parametrize("status", [200, 404])
def test_a_proxys_answer_says_nothing_of_what_is_there(
    flavour: str, proxy: Gateway, name: str, blocking: milepost.Client, status: int
) -> None:
    def unavailable(read: Any) -> None:
        with pytest.raises(milepost.Unavailable):
            read()

    with blocking.session() as session, connected(flavour, proxy.url, timeout=2.0) as client:
        session.store(name).add_and_lock("h", b"state")
        proxy(Fault(lambda _: True, answer=(status, "the proxy says so")))
        store = client.store(name)
        for read in (lambda: store.exists("h"), lambda: store.read("h"), client.status):
            unavailable(read)
        proxy()
        assert store.exists("h") is not None
        assert store.exists("another") is None
