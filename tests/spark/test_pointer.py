"""Writes whose answer is lost, refused or late: each ends for certain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import milepost
from milepost.errors import (
    AlreadyExists,
    ConnectionFailed,
    Fenced,
    LabelsLost,
    MilepostError,
    OutcomeUnknown,
    StorageFull,
    Unavailable,
    VersionMismatch,
)
from milepost.spark.pointer import JobPointer, ResolvingStore
from milepost.store import StateHandleStore
from milepost.types import Handle
from milepost.wire import Code

UNKNOWN = OutcomeUnknown(Code.OUTCOME_UNKNOWN)
AWAY = Unavailable(Code.NO_LEADER)
Fault = Callable[[Callable[[], Handle]], Handle]


class Faulty(StateHandleStore):
    """A real store of the real service, some of whose writes are disturbed on the client's side of the wire.

    A fault of the network at a chosen moment cannot be had from the real parts.
    """

    def __init__(self, real: StateHandleStore, *faults: Fault) -> None:
        super().__init__(real._driver, real._operations)
        self.faults = list(faults)
        self.writes = 0

    def add_and_lock(self, *args: Any, **kwargs: Any) -> Handle:
        return self._disturbed(lambda: super(Faulty, self).add_and_lock(*args, **kwargs))

    def replace(self, *args: Any, **kwargs: Any) -> Handle:
        return self._disturbed(lambda: super(Faulty, self).replace(*args, **kwargs))

    def _disturbed(self, write: Callable[[], Handle]) -> Handle:
        self.writes += 1
        return self.faults.pop(0)(write) if self.faults else write()


def lost_answer(write: Callable[[], Handle]) -> Handle:
    """The write is committed, its answer does not come."""
    write()
    raise UNKNOWN


def lost_request(_write: Callable[[], Handle]) -> Handle:
    """Nothing is committed, and nobody can tell."""
    raise UNKNOWN


def away(_write: Callable[[], Handle]) -> Handle:
    raise AWAY


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def certain(real: StateHandleStore, *faults: Fault, outage_timeout: float = 5.0) -> tuple[ResolvingStore, Faulty]:
    clock, faulty = Clock(), Faulty(real, *faults)
    return ResolvingStore(faulty, outage_timeout=outage_timeout, clock=clock, sleep=clock.sleep), faulty


@pytest.mark.parametrize(
    ("faults", "writes"),
    [
        ((), 1),
        ((lost_answer,), 1),
        ((lost_request,), 2),
        ((away, away), 3),
        ((lost_request, lost_answer), 2),
        ((away, lost_answer), 2),
    ],
)
def test_a_replace_is_applied_once(handles: StateHandleStore, faults: tuple[Fault, ...], writes: int) -> None:
    first = handles.add_and_lock("job", b"0")
    store, faulty = certain(handles, *faults)
    done = store.replace("job", first.version, b"1", {})
    assert handles.get("job").version == done.version
    assert handles.read("job") == b"1"
    assert faulty.writes == writes


@pytest.mark.parametrize("faults", [(lost_answer,), (lost_request,), (away, lost_answer), (lost_request, lost_request)])
def test_an_add_is_applied_once(handles: StateHandleStore, faults: tuple[Fault, ...]) -> None:
    store, _ = certain(handles, *faults)
    done = store.add("another", b"bytes", {"published": "1"})
    assert handles.get("another") == done


def test_a_job_goes_on_without_its_labels(handles: StateHandleStore, caplog: pytest.LogCaptureFixture) -> None:
    def without_labels(write: Callable[[], Handle]) -> Handle:
        raise LabelsLost("job is stored, but not with its labels", write())

    store, _ = certain(handles, without_labels, without_labels)
    first = store.add("job", b"0", {"published": "0"})
    assert store.replace("job", first.version, b"1", {"published": "1"}) == handles.get("job")
    assert [record.getMessage() for record in caplog.records] == ["job is stored, but not with its labels"]


def test_a_write_that_lands_late_is_recognised(handles: StateHandleStore) -> None:
    """The first attempt is committed after its answer was given up and after nothing was to be seen of it."""
    first = handles.add_and_lock("job", b"0")
    late: list[Callable[[], Handle]] = []

    def delayed(write: Callable[[], Handle]) -> Handle:
        late.append(write)
        raise UNKNOWN

    def behind_it(write: Callable[[], Handle]) -> Handle:
        late.pop()()
        return write()

    store, _ = certain(handles, delayed, behind_it)
    assert store.replace("job", first.version, b"1", {}).version == handles.get("job").version


def test_patience_ends_with_what_is_known(handles: StateHandleStore) -> None:
    first = handles.add_and_lock("job", b"0")
    store, _ = certain(handles, *[away] * 100, outage_timeout=1.0)
    with pytest.raises(Unavailable):
        store.replace("job", first.version, b"1", {})
    store, _ = certain(handles, *[lost_request] * 100, outage_timeout=1.0)
    with pytest.raises(OutcomeUnknown):
        store.replace("job", first.version, b"1", {})
    assert handles.read("job") == b"0"


@pytest.mark.parametrize("then", [AWAY, ConnectionFailed("away"), StorageFull(Code.STORAGE_FULL)])
def test_what_came_to_nothing_afterwards_leaves_a_write_in_doubt(
    handles: StateHandleStore, then: MilepostError
) -> None:
    """The first attempt may have been committed, or may yet: "nothing was applied" would be wrong."""
    first = handles.add_and_lock("job", b"0")

    def refused(_write: Callable[[], Handle]) -> Handle:
        raise then

    store, _ = certain(handles, lost_request, *[refused] * 100, outage_timeout=1.0)
    with pytest.raises(OutcomeUnknown) as unknown:
        store.replace("job", first.version, b"1", {})
    assert unknown.value.__cause__ is then


@pytest.mark.parametrize("refusal", [StorageFull(Code.STORAGE_FULL), Fenced(Code.FENCED)])
def test_a_refusal_is_final(handles: StateHandleStore, refusal: MilepostError) -> None:
    def refused(_write: Callable[[], Handle]) -> Handle:
        raise refusal

    store, faulty = certain(handles, refused)
    with pytest.raises(type(refusal)):
        store.add("another", b"bytes", {})
    assert faulty.writes == 1


def test_somebody_elses_state_is_not_taken_for_ones_own(handles: StateHandleStore) -> None:
    first = handles.add_and_lock("job", b"0")
    handles.replace("job", first.version, b"by hand")
    store, _ = certain(handles, lost_request)
    with pytest.raises(VersionMismatch):
        store.replace("job", first.version, b"1", {})
    handles.add_and_lock("another", b"other bytes")
    with pytest.raises(AlreadyExists):
        store.add("another", b"bytes", {})
    assert handles.read("job") == b"by hand"


def test_a_successors_write_says_fenced(client: milepost.Client, handles: StateHandleStore, name: str) -> None:
    first = handles.add_and_lock("job", b"0")
    store, _ = certain(handles.under(handles.epoch or 0))
    handles.resign()
    successor = client.session("successor").store(name)
    successor.campaign()
    with pytest.raises(Fenced) as fenced:
        store.replace("job", first.version, b"1", {})
    assert fenced.value.current == successor.epoch
    with pytest.raises(Fenced):
        store.raise_if_fenced()


def test_an_outage_while_reading_back_is_waited_out(handles: StateHandleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    first = handles.add_and_lock("job", b"0")
    store, faulty = certain(handles, lost_answer)
    outages = [ConnectionFailed("away"), AWAY]
    real = StateHandleStore.get

    def get(self: StateHandleStore, name: str) -> Handle:
        if outages:
            raise outages.pop()
        return real(self, name)

    monkeypatch.setattr(Faulty, "get", get)
    assert store.replace("job", first.version, b"1", {}).version == handles.exists("job")
    assert faulty.writes == 1


def test_the_pointer_is_made_once_and_found_again(client: milepost.Client, name: str) -> None:
    with client.session("first") as session:
        handles = session.store(name)
        handles.campaign()
        made = JobPointer.take(certain(handles)[0], "here")
        made.move(made.record.publishing(0, {"page": 1}, 1))
        handles.resign()
    handles = client.session("second").store(name)
    handles.campaign()
    found = JobPointer.take(certain(handles)[0], "here")
    assert found.record == made.record
    found.move(found.record.publishing(1, None, 2))
    assert handles.get("job").labels["published"] == "1"


def test_a_manifest_is_what_was_stored_also_for_the_driver_that_wrote_it(handles: StateHandleStore) -> None:
    pointer = JobPointer.take(certain(handles)[0], "here")
    pointer.move(pointer.record.publishing(0, {1: ("a", "b")}, 1))
    assert pointer.record.manifest == {"1": ["a", "b"]}
    assert JobPointer.take(certain(handles)[0], "here").record == pointer.record


def test_without_an_epoch_nobody_writes(client: milepost.Client, name: str) -> None:
    store = ResolvingStore(client.session("nobody").store(name), outage_timeout=1.0)
    with pytest.raises(ValueError, match="epoch"):
        JobPointer.take(store, "here")
