"""Large states between the SDK and S3 by signed URLs, over real servers: what the user sees is as without them."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pytest

import milepost
from testbed.server import ServerProcess
from tests.client.flavours import connected
from tests.direct.conftest import ABOVE, NAMED, Way, is_signed
from tests.support.network.gateway import Fault, Request

STATE = os.urandom(3_000_000)
SHA256 = hashlib.sha256(STATE).hexdigest()


def is_put(request: Request) -> bool:
    return request.method == "PUT" and is_signed(request)


def is_get(request: Request) -> bool:
    return request.method == "GET" and is_signed(request)


def test_a_large_state_goes_straight_there_and_back(store: Any, way: Way) -> None:
    handle = store.add_and_lock("latest", STATE, labels={"batch": "7"})
    assert (handle.size, handle.sha256, handle.labels) == (len(STATE), SHA256, {"batch": "7"})
    assert handle.locks == (store.session_id,)
    assert store.read("latest", handle.version) == STATE
    newer = store.replace("latest", handle.version, STATE[::-1])
    assert store.read("latest") == STATE[::-1]
    with store.open("latest", newer.version) as chunks:
        assert b"".join(chunks) == STATE[::-1]
    assert way.taken() == ["PUT", "GET", "PUT", "GET", "GET"]


def test_a_small_state_goes_through_the_service(store: Any, way: Way) -> None:
    store.add_and_lock("large", STATE)
    handle = store.add_and_lock("small", STATE[:ABOVE])
    assert store.read("small", handle.version) == STATE[:ABOVE]
    assert way.taken() == ["PUT"]


def test_whatever_can_be_read_twice_goes_straight(store: Any, way: Way, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(STATE)
    once = iter([STATE[:99], STATE[99:]])
    for number, state in enumerate((path, io.BytesIO(STATE), [STATE[:99], STATE[99:]], once)):
        assert store.add_and_lock(f"h-{number}", state).sha256 == SHA256
    assert way.taken() == ["PUT"] * 3


def test_a_client_that_is_told_to_sends_all_through_the_service(server: ServerProcess, flavour: str, way: Way) -> None:
    with connected(flavour, server.url, direct_above=None) as client, client.session(holder="a") as session:
        store = session.store("told")
        store.add_and_lock("latest", STATE)
        assert store.read("latest") == STATE
        store.release_and_try_remove("latest")
    assert way.taken() == []


def test_the_errors_are_the_same(store: Any, way: Way) -> None:
    handle = store.add_and_lock("latest", STATE)
    newer = store.replace("latest", handle.version, STATE[1:])
    with pytest.raises(milepost.AlreadyExists):
        store.add_and_lock("latest", STATE)
    with pytest.raises(milepost.VersionMismatch) as mismatch:
        store.replace("latest", handle.version, STATE)
    assert mismatch.value.current == newer.version
    with pytest.raises(milepost.NotExist):
        store.replace("never", handle.version, STATE)
    with pytest.raises(milepost.VersionMismatch):
        store.read("latest", handle.version)
    store.campaign(wait=5)
    with pytest.raises(milepost.Fenced):
        store.under(epoch=7).replace("latest", newer.version, STATE)
    with pytest.raises(milepost.NotExist):
        store.read("never")
    assert store.read("latest", newer.version) == STATE[1:]
    assert way.taken().count("PUT") == 6


def test_a_put_whose_answer_is_lost_is_found_done(store: Any, way: Way) -> None:
    way.gate(Fault(is_put, times=1, lose_answer=True))
    assert store.add_and_lock("latest", STATE).sha256 == SHA256
    assert way.taken() == ["PUT", "PUT"]
    assert store.read("latest") == STATE


def test_a_put_that_is_refused_is_signed_anew(store: Any, way: Way) -> None:
    way.gate(Fault(is_put, times=1, answer=(403, "AccessDenied")))
    assert store.add_and_lock("latest", STATE).sha256 == SHA256
    assert way.taken() == ["PUT", "PUT"]


def test_bytes_that_are_damaged_on_the_way_never_become_a_handle(store: Any, way: Way) -> None:
    way.gate(Fault(is_put, damage=True))
    assert store.add_and_lock("latest", STATE).sha256 == SHA256
    assert store.read("latest") == STATE
    assert way.taken() == ["PUT", "GET"]  # S3 refused what it was sent, and the service was given the bytes


def test_what_s3_does_not_take_from_here_goes_through_the_service(
    store: Any, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    way.gate(Fault(is_signed, answer=(405, "MethodNotAllowed")))
    handle = store.add_and_lock("latest", STATE)
    assert store.read("latest") == STATE
    assert store.replace("latest", handle.version, STATE).sha256 == SHA256
    assert way.taken() == ["PUT"]
    assert sum("through the service" in record.getMessage() for record in caplog.records) == 1


def test_a_download_that_is_cut_is_gone_on_with(store: Any, way: Way) -> None:
    store.add_and_lock("latest", STATE)
    way.gate(Fault(is_get, times=1, cut_after=1_000_000))
    assert store.read("latest") == STATE
    assert way.taken() == ["PUT", "GET", "GET"]


def test_a_download_that_s3_refuses_comes_through_the_service(store: Any, way: Way) -> None:
    store.add_and_lock("latest", STATE)
    way.gate(Fault(is_get, answer=(503, "SlowDown")))
    assert store.read("latest") == STATE
    way.gate(Fault(is_get, times=1, cut_after=1_000_000), Fault(is_get, answer=(403, "AccessDenied")))
    assert store.read("latest") == STATE


def test_a_state_outlives_the_session_and_is_read_by_whom_it_concerns(
    client: Any, server: ServerProcess, way: Way
) -> None:
    with client.session(holder="a") as session:
        session.store(session.id).add_and_lock("latest", STATE)
    with connected("blocking", server.url, **NAMED) as other:
        assert other.store(session.id).read("latest") == STATE
    assert way.taken() == ["PUT", "GET"]
