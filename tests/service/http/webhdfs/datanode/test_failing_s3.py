"""S3 fails for a moment while a data node takes a file, or gives one: its client, which asks but once, does not notice.

What the store does itself is shown in tests/backends/s3/test_repeating.py.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from milepost.errors import Unavailable
from milepost_backends.s3.blobs import S3Blobs
from milepost_server.blobs.intake import Incoming
from milepost_server.http.webhdfs.datanode.data_node import DataNode
from milepost_server.http.webhdfs.datanode.peer import Peer
from milepost_server.http.webhdfs.datanode.transfer_tokens import DownloadToken, UploadToken
from milepost_server.operations.trees import At
from milepost_server.replica.leader_locator import LeaderLocator
from tests.contracts.places import Services
from tests.service.acting import STORE, actor
from tests.support.network.gateway import Fault, Gateway, gateway
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.servers.s3 import BUCKET, shared

pytestmark = pytest.mark.anyio

AT = At(STORE, "state/1")
WALL = 1_800_000_000
SIZES = [70_000, 6 * 1024 * 1024]


class _Nobody(Peer):
    """No other replica: this one leads."""

    def __init__(self) -> None:
        """There is nothing to connect to."""


@dataclass
class Scene:
    """A leader whose blobs are on S3, behind a gateway, and its data node."""

    leader: Rig
    before: Gateway
    data_node: DataNode
    epoch: int

    async def take(self, content: bytes, patience: float = 120.0) -> None:
        """Put a file as the client of WebHDFS does."""
        journal = self.leader.replica.journal
        token = UploadToken(STORE, AT.path, self.epoch, True, "k", journal.deployment, journal.term, WALL + 60)

        async def chunks() -> AsyncIterator[bytes]:
            for begin in range(0, len(content), 65_536):
                yield content[begin : begin + 65_536]

        await self.data_node.take(token, "", Incoming(chunks()), patience=patience)

    async def give(self) -> bytes:
        """Read the file."""
        entry = self.leader.operations.trees.entry(AT)
        token = DownloadToken(STORE, AT.path, entry.blob, entry.size, entry.sha256, WALL + 60)
        _, chunks = await self.data_node.give(token, 0, None)
        return b"".join([chunk async for chunk in chunks])


@pytest.fixture
async def scene(tmp_path: Path, services: Services) -> AsyncIterator[Scene]:
    server = shared(services)
    async with AsyncExitStack() as stack:
        before = await stack.enter_async_context(gateway(server.endpoint_url))
        url = server.url(BUCKET, f"tests/{secrets.token_hex(8)}", before.url)
        leader = await stack.enter_async_context(rig(embedded(tmp_path, lambda: S3Blobs(url)), PROMPT))
        epoch = await (await actor(leader, "driver")).campaign()
        data_node = DataNode(
            leader.replica.journal,
            leader.replica.blobs,
            leader.operations.publisher,
            LeaderLocator(leader.election, leader.advertise, leader.clock),
            _Nobody(),
            leader.clock,
            lambda: float(WALL),
            max_state_bytes=None,
            inline_below=0,
        )
        before.requests.clear()
        yield Scene(leader, before, data_node, epoch)
        before()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "fault",
    [
        {"answer": (503, "SlowDown")},
        {"answer": (409, "ConditionalRequestConflict")},
        {"drop": True},
        {"lose_answer": True},
    ],
    ids=str,
)
async def test_a_file_is_taken_and_given_whatever_fails_for_a_moment(
    scene: Scene, size: int, fault: dict[str, object]
) -> None:
    content = secrets.token_bytes(size)
    scene.before(
        Fault(lambda request: request.method == "POST" and "uploadId" in request.target, times=2, **fault),  # type: ignore[arg-type]
        Fault(lambda request: request.method == "PUT", times=2, **fault),  # type: ignore[arg-type]
        Fault(lambda request: request.method == "GET", times=4, answer=(503, "SlowDown")),
    )
    await scene.take(content)
    assert await scene.give() == content


async def test_a_refusal_is_answered_at_once(scene: Scene) -> None:
    scene.before(Fault(lambda request: request.method == "PUT", answer=(403, "AccessDenied")))
    with pytest.raises(Unavailable, match="403"):
        await scene.take(b"x" * 70_000)
    assert [request.method for request in scene.before.requests].count("PUT") == 1
