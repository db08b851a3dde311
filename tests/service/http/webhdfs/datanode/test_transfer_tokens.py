"""A token says by itself what may be done with it, and how long."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest

from milepost.errors import AccessDenied
from milepost_server.blobs.shared_key import SharedKey
from milepost_server.http.requests import MOST_REMEMBERED_BYTES
from milepost_server.http.webhdfs.datanode.data_node import DataNode
from milepost_server.http.webhdfs.datanode.data_nodes import DataNodeRegistry, DataNodes
from milepost_server.http.webhdfs.datanode.peer import PROOF, Heartbeat, checked, signed
from milepost_server.http.webhdfs.datanode.transfer_tokens import (
    LATE_SECONDS,
    LIFE_SECONDS,
    PARAMETER,
    DownloadToken,
    UploadToken,
    proof_of,
    sign,
    verify,
)
from milepost_server.operations.trees import At
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


def data_nodes_of(running: Rig, wall: Days) -> DataNodes:
    replica = running.replica
    own = DataNode.__new__(DataNode)  # nothing is taken or given here
    key = SharedKey(replica.blobs, replica.pointers)
    return DataNodes(own, DataNodeRegistry(running.advertise, running.clock), key, replica.journal, wall)


async def test_a_put_is_begun_within_its_time_and_published_within_another(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        wall = Days()
        data_nodes = data_nodes_of(running, wall)
        _, text = await data_nodes.upload_token(AT, 1, overwrite=False, excluded=())
        for waited, may_begin, may_publish in (
            (0.0, True, True),
            (LIFE_SECONDS, True, True),
            (LIFE_SECONDS + 1.0, False, True),
            (LIFE_SECONDS + LATE_SECONDS, False, True),
            (LIFE_SECONDS + LATE_SECONDS + 1.0, False, False),
        ):
            wall.now = WALL + waited
            for allowed, asked in (
                (may_begin, data_nodes.token(text, UploadToken, AT)),
                (may_publish, data_nodes.to_publish(text, AT)),
            ):
                if allowed:
                    assert (await asked).path == AT.path
                else:
                    with pytest.raises(AccessDenied):
                        await asked


async def test_a_permit_is_for_one_thing_at_one_path(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        data_nodes = data_nodes_of(running, Days())
        _, text = await data_nodes.upload_token(AT, 1, overwrite=False, excluded=())
        for asked in (
            data_nodes.token(text, DownloadToken, AT),
            data_nodes.to_publish(text, At(STORE, "state/2")),
            data_nodes.to_publish(text, At("other", AT.path)),
            data_nodes.to_publish(text[:-1], AT),
            data_nodes.to_publish("", AT),
        ):
            with pytest.raises(AccessDenied):
                await asked


def test_what_proves_a_permit_proves_no_message_and_the_other_way_round() -> None:
    """Whoever asks for files gets tokens, and says with that what is in them."""
    key = b"k" * 32
    token = DownloadToken(AT.store, AT.path, "", 1, "0", int(WALL))
    text = sign(token, key)
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert verify(text, key, DownloadToken, AT) == token
    with pytest.raises(AccessDenied):
        checked(raw[32:], raw[:32].hex(), key)
    said, headers = signed(Heartbeat("http://127.0.0.1:9"), key)
    checked(said, headers[PROOF], key)
    body = msgspec.json.encode(token)
    foreign = base64.urlsafe_b64encode(proof_of(body, key, b"message") + body).decode()
    with pytest.raises(AccessDenied):
        verify(foreign, key, DownloadToken, AT)


def test_no_query_with_a_token_is_short_enough_to_be_remembered() -> None:
    shortest = sign(DownloadToken("a", "b", "", 0, "0" * 64, int(WALL)), b"key")
    assert len(f"op=OPEN&{PARAMETER}={shortest}") > MOST_REMEMBERED_BYTES
