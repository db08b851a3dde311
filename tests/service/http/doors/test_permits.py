"""A permit says by itself what may be done with it, and how long."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest

from milepost.errors import AccessDenied
from service.blobs.shared_key import SharedKey
from service.http.doors.door import Door
from service.http.doors.doors import DataDoors
from service.http.doors.messages import PROOF, Here, checked, signed
from service.http.doors.permits import LATE_SECONDS, LIFE_SECONDS, PutPermit, ReadPermit, opened, proof_of, sealed
from service.http.doors.registry import Doors
from service.operations.trees import At
from tests.service.acting import STORE
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio

AT = At(STORE, "state/1")
WALL = 1_800_000_000.0


class Days:
    """A wall clock that a test moves on."""

    def __init__(self) -> None:
        self.now = WALL

    def __call__(self) -> float:
        return self.now


def doors_of(running: Rig, wall: Days) -> DataDoors:
    replica = running.replica
    own = Door.__new__(Door)  # nothing is taken or given here
    key = SharedKey(replica.blobs, replica.pointers)
    return DataDoors(own, Doors(running.advertise, running.clock), key, replica.journal, wall)


async def test_a_put_is_begun_within_its_time_and_published_within_another(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        wall = Days()
        doors = doors_of(running, wall)
        _, text = await doors.to_put(AT, 1, overwrite=False, excluded=())
        for waited, may_begin, may_publish in (
            (0.0, True, True),
            (LIFE_SECONDS, True, True),
            (LIFE_SECONDS + 1.0, False, True),
            (LIFE_SECONDS + LATE_SECONDS, False, True),
            (LIFE_SECONDS + LATE_SECONDS + 1.0, False, False),
        ):
            wall.now = WALL + waited
            for allowed, asked in (
                (may_begin, doors.permit(text, PutPermit, AT)),
                (may_publish, doors.to_publish(text, AT)),
            ):
                if allowed:
                    assert (await asked).path == AT.path
                else:
                    with pytest.raises(AccessDenied):
                        await asked


async def test_a_permit_is_for_one_thing_at_one_path(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        doors = doors_of(running, Days())
        _, text = await doors.to_put(AT, 1, overwrite=False, excluded=())
        for asked in (
            doors.permit(text, ReadPermit, AT),
            doors.to_publish(text, At(STORE, "state/2")),
            doors.to_publish(text, At("other", AT.path)),
            doors.to_publish(text[:-1], AT),
            doors.to_publish("", AT),
        ):
            with pytest.raises(AccessDenied):
                await asked


def test_what_proves_a_permit_proves_no_message_and_the_other_way_round() -> None:
    """Whoever asks for files gets permits, and says with that what is in them."""
    key = b"k" * 32
    permit = ReadPermit(AT.store, AT.path, "", 1, "0", int(WALL))
    text = sealed(permit, key)
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert opened(text, key, ReadPermit, AT) == permit
    with pytest.raises(AccessDenied):
        checked(raw[32:], raw[:32].hex(), key)
    said, headers = signed(Here("http://127.0.0.1:9"), key)
    checked(said, headers[PROOF], key)
    body = msgspec.json.encode(permit)
    foreign = base64.urlsafe_b64encode(proof_of(body, key, b"message") + body).decode()
    with pytest.raises(AccessDenied):
        opened(foreign, key, ReadPermit, AT)
