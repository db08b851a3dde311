"""Every operation of a store, in both flavours, over the real service."""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import milepost
import milepost.aio
from milepost.types import Removal
from tests.client.conftest import Service

STATE = bytes(range(256)) * 1000


@pytest.fixture
def session(client: Any) -> Iterator[Any]:
    with client.session(holder="a", ttl=30) as session:
        yield session


@pytest.fixture
def other(client: Any) -> Iterator[Any]:
    with client.session(holder="b", ttl=30) as session:
        yield session


@pytest.fixture
def store(session: Any, name: str) -> Any:
    return session.store(name)


def test_add_returns_the_record_and_locks(store: Any, session: Any) -> None:
    handle = store.add_and_lock("latest", STATE, labels={"batch": "7", "kind": "full one"})
    assert handle.name == "latest"
    assert (handle.size, handle.sha256) == (len(STATE), hashlib.sha256(STATE).hexdigest())
    assert handle.labels == {"batch": "7", "kind": "full one"}
    assert handle.locks == (session.id,)
    assert (handle.epoch, handle.removing) == (None, False)
    assert handle.created == handle.updated
    assert store.get("latest") == handle
    assert store.exists("latest") == handle.version
    assert store.read("latest") == STATE


def test_add_twice_is_a_conflict_and_keeps_the_first(store: Any) -> None:
    store.add_and_lock("latest", b"first")
    with pytest.raises(milepost.AlreadyExists) as raised:
        store.add_and_lock("latest", b"second")
    assert raised.value.outcome is milepost.Outcome.NOT_APPLIED
    assert store.read("latest") == b"first"


def test_replace_compares_and_sets(store: Any) -> None:
    first = store.add_and_lock("latest", b"first", labels={"batch": "1"})
    second = store.replace("latest", first.version, b"second")
    assert second.version != first.version
    assert second.labels == {"batch": "1"}
    assert store.read("latest") == b"second"
    with pytest.raises(milepost.VersionMismatch) as raised:
        store.replace("latest", first.version, b"third")
    assert raised.value.current == second.version
    third = store.replace("latest", second.version, b"third", labels={"batch": "3"})
    assert third.labels == {"batch": "3"}


def test_replace_needs_the_handle_and_a_lock_on_it(store: Any) -> None:
    with pytest.raises(milepost.NotExist):
        store.replace("latest", "abc.1", b"state")
    handle = store.add_and_lock("latest", b"first")
    store.release("latest")
    with pytest.raises(milepost.NotLocked):
        store.replace("latest", handle.version, b"second")


def test_what_does_not_exist(store: Any) -> None:
    assert store.exists("latest") is None
    for read in (store.get, store.get_and_lock, store.read):
        with pytest.raises(milepost.NotExist):
            read("latest")
    assert store.release_and_try_remove("latest") == Removal(removed=True)
    store.release("latest")
    store.release_all()
    assert store.clear_entries() == 0


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
def test_every_kind_of_state_arrives_whole(store: Any, tmp_path: Path, size: int) -> None:
    state = bytes(size)
    path = tmp_path / "state"
    path.write_bytes(state)
    pieces = [state[i : i + 100_000] for i in range(0, size, 100_000)]
    store.add_and_lock("bytes", state)
    store.add_and_lock("path", path)
    with path.open("rb") as file:
        store.add_and_lock("file", file)
    store.add_and_lock("memory", io.BytesIO(state))
    store.add_and_lock("list", pieces)
    store.add_and_lock("generator", (piece for piece in pieces))
    handles = list(store.get_all_handles())
    assert len(handles) == 6
    assert {handle.sha256 for handle in handles} == {hashlib.sha256(state).hexdigest()}
    for handle in handles:
        assert store.read(handle.name, handle.version) == state


def test_a_state_can_be_read_in_chunks_and_left_early(store: Any) -> None:
    handle = store.add_and_lock("latest", STATE * 10)
    with store.open("latest", handle.version) as chunks:
        parts = list(chunks)
    assert b"".join(parts) == STATE * 10
    assert len(parts) > 1
    with store.open("latest") as chunks:
        assert STATE.startswith(next(chunks)[:100])
    with pytest.raises(milepost.NotExist), store.open("missing"):
        pytest.fail("entered a block for a state that is not there")


def test_a_version_that_is_gone_is_not_read(store: Any) -> None:
    first = store.add_and_lock("latest", b"first")
    second = store.replace("latest", first.version, b"second")
    with pytest.raises(milepost.VersionMismatch) as raised:
        store.read("latest", first.version)
    assert raised.value.current == second.version


def test_damaged_bytes_are_never_given_out_whole(service: Service, store: Any, name: str) -> None:
    state = name.encode() + STATE * 20
    store.add_and_lock("latest", state)
    blob = service.blob(state)
    blob.chmod(0o600)
    blob.write_bytes(state[:-1] + b"!")
    with pytest.raises((milepost.Corrupt, milepost.StateTruncated)):
        store.read("latest")
    received: list[bytes] = []
    with pytest.raises((milepost.Corrupt, milepost.StateTruncated)), store.open("latest") as chunks:
        received.extend(chunks)
    assert len(b"".join(received)) < len(state)


def test_missing_bytes_are_told_apart(service: Service, store: Any, name: str) -> None:
    state = name.encode()
    store.add_and_lock("latest", state)
    service.blob(state).unlink()
    with pytest.raises((milepost.BlobMissing, milepost.StateTruncated)):
        store.read("latest")


def test_locks_belong_to_sessions(store: Any, session: Any, other: Any, name: str) -> None:
    store.add_and_lock("latest", b"state")
    theirs = other.store(name)
    assert set(theirs.get_and_lock("latest").locks) == {session.id, other.id}
    assert store.release_and_try_remove("latest") == Removal(removed=False, locks=(other.id,))
    assert theirs.get("latest").locks == (other.id,)
    assert theirs.release_and_try_remove("latest") == Removal(removed=True)
    assert store.exists("latest") is None


def test_a_removal_may_be_for_one_version_only(store: Any) -> None:
    first = store.add_and_lock("latest", b"first")
    second = store.replace("latest", first.version, b"second")
    with pytest.raises(milepost.VersionMismatch):
        store.release_and_try_remove("latest", first.version)
    assert store.release_and_try_remove("latest", second.version) == Removal(removed=True)


def test_all_are_locked_by_name_and_released(store: Any, other: Any, name: str) -> None:
    for handle in ("c", "a", "b"):
        store.add_and_lock(handle, handle.encode())
    theirs = other.store(name)
    locked = theirs.get_all_and_lock()
    assert [handle.name for handle in locked.handles] == ["a", "b", "c"]
    assert all(other.id in handle.locks for handle in locked.handles)
    assert locked.corrupt == []
    theirs.release_all()
    store.release("a")
    assert [handle.locks for handle in theirs.get_all_handles()] == [(), store.get("b").locks, store.get("c").locks]


def test_many_handles_come_in_pages(store: Any) -> None:
    names = [f"handle-{number}" for number in range(7)]
    for handle in names:
        store.add_and_lock(handle, b"")
    for page in (1, 3, 7, 1000):
        assert [handle.name for handle in store.get_all_handles(page_size=page)] == names
    assert store.clear_entries() == 7
    assert list(store.get_all_handles()) == []


def test_an_epoch_fences(store: Any, session: Any, other: Any, name: str) -> None:
    assert store.current_epoch() == milepost.Epoch(0)
    assert store.epoch is None
    epoch = store.campaign(wait=5.0)
    assert (epoch.epoch, epoch.session, epoch.holder) == (store.epoch, session.id, "a")
    assert store.campaign(wait=0) == epoch
    theirs = other.store(name)
    with pytest.raises(milepost.EpochHeld) as held:
        theirs.campaign(wait=0.2)
    assert (held.value.holder, held.value.epoch) == ("a", epoch.epoch)
    with pytest.raises(milepost.Fenced) as fenced:
        theirs.add_and_lock("latest", b"not mine")
    assert fenced.value.current == epoch.epoch
    handle = theirs.under(epoch.epoch).add_and_lock("latest", b"an executor's")
    assert handle.epoch == epoch.epoch
    store.resign()
    assert store.epoch is None
    newer = theirs.campaign(wait=5.0)
    assert newer.epoch > epoch.epoch
    old = session.store(name).under(epoch.epoch)
    with pytest.raises(milepost.Fenced):
        old.replace("latest", handle.version, b"late")
    with pytest.raises(milepost.Fenced):
        old.release_and_try_remove("latest")
    with pytest.raises(milepost.Fenced):
        old.clear_entries()
    with pytest.raises(milepost.Fenced):
        store.resign()


def test_a_store_without_a_session_reads(client: Any, store: Any, name: str) -> None:
    store.add_and_lock("latest", b"state")
    reader = client.store(name)
    assert reader.read("latest") == b"state"
    assert reader.name == name
    assert reader.session_id is None
    with pytest.raises(milepost.InvalidRequest):
        reader.release("latest")


@pytest.mark.anyio
async def test_an_asynchronous_source_is_a_state_too(service: Service, name: str) -> None:
    async def source() -> AsyncIterator[bytes]:
        for piece in (b"a" * 70_000, b"b"):
            yield piece

    async with (
        milepost.aio.AsyncClient(service.url) as client,
        client.session(holder="a") as session,
    ):
        handle = await session.store(name).add_and_lock("latest", source())
        assert handle.size == 70_001


def test_an_asynchronous_source_needs_the_asynchronous_client(blocking: milepost.Client, name: str) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"never taken"

    with blocking.session(holder="a") as session, pytest.raises(TypeError, match=r"milepost\.aio"):
        session.store(name).add_and_lock("latest", source())  # type: ignore[arg-type]
