"""States pass through the server in both directions and are never held whole."""

from __future__ import annotations

import hashlib
import http.client
import random
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest

from testbed.server import DEADLINE_SECONDS, ServerProcess
from tests.wire.support.api import Api
from tests.wire.support.damage import blob_file, blob_files

MIB = 1024 * 1024
EXTRA_MEMORY = 150 * MIB
_NOISE = random.Random(7).randbytes(MIB)

SIZES = [
    pytest.param(256 * MIB, id="256 MiB"),
    pytest.param(2048 * MIB, id="2 GiB", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
]


def blocks(size: int) -> Iterator[bytes]:
    """``size`` bytes, a block at a time, no two blocks alike."""
    for number in range(size // MIB):
        yield number.to_bytes(8, "big") + _NOISE[8:]
    yield _NOISE[: size % MIB]


def digest_of(chunks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return f"sha-256=:{b64encode(digest.digest()).decode()}:"


@pytest.fixture
def api(http: httpx.Client, store: str) -> Iterator[Api]:
    """A session on a store; what the test adds is removed with it, to give the disk back."""
    api = Api.on(http, store)
    yield api
    for record in api.handles().json()["handles"]:
        api.remove(record["name"])


class Memory:
    """The most memory that a server has taken since this was made, beyond what it had then, in bytes."""

    def __init__(self, server: ServerProcess) -> None:
        server.forget_peak()
        self._server = server
        self._before = server.memory("VmRSS")

    @property
    def extra(self) -> int:
        return self._server.memory("VmHWM") - self._before


@contextmanager
def exchange(
    server: ServerProcess, method: str, api: Api, path: str, body: Iterator[bytes] | None = None, **headers: str
) -> Iterator[http.client.HTTPResponse]:
    """A request by the standard library's client, which neither gathers nor copies more than it must."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_SECONDS)) as connection:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        acting = {"Milepost-Session": str(api.session), **sent}
        connection.request(method, f"/v1/stores/{api.store}{path}", body, acting)
        with closing(connection.getresponse()) as response:
            yield response


def chunks_of(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := response.read(MIB):
        yield chunk


def store_state(server: ServerProcess, api: Api, name: str, size: int) -> None:
    with exchange(server, "POST", api, f"/handles/{name}", blocks(size), Content_Length=str(size)) as response:
        assert response.status == 201, response.read()


@pytest.mark.parametrize("size", SIZES)
def test_a_large_state_passes_in_both_directions_in_little_memory(server: ServerProcess, api: Api, size: int) -> None:
    store_state(server, api, "warm-up", 3 * MIB + 7)
    assert len(api.state("warm-up").content) == 3 * MIB + 7
    memory = Memory(server)
    expected = digest_of(blocks(size))

    announced = {"Content_Length": str(size), "Content_Digest": expected}
    with exchange(server, "POST", api, "/handles/large", blocks(size), **announced) as response:
        assert response.status == 201, response.read()
    assert memory.extra < EXTRA_MEMORY

    with exchange(server, "GET", api, "/handles/large/state") as response:
        assert response.status == 200
        assert response.getheader("content-length") == str(size)
        assert response.getheader("repr-digest") == expected
        assert digest_of(chunks_of(response)) == expected
    assert memory.extra < EXTRA_MEMORY


def test_a_slow_reader_fills_no_memory(server: ServerProcess, api: Api) -> None:
    size = 256 * MIB
    store_state(server, api, "large", size)
    memory = Memory(server)
    with exchange(server, "GET", api, "/handles/large/state") as response:
        assert response.status == 200
        for _ in range(20):
            assert api.exists("large").status_code == 200
        assert memory.extra < EXTRA_MEMORY
        assert sum(map(len, chunks_of(response))) == size
    assert memory.extra < EXTRA_MEMORY


def test_a_wrong_digest_at_the_end_of_a_large_body_leaves_nothing(server: ServerProcess, api: Api) -> None:
    size = 64 * MIB
    before, blobs = api.everything(), blob_files(server)
    wrong = digest_of(blocks(size - 1))
    headers = {"Content_Length": str(size), "Content_Digest": wrong}
    with exchange(server, "POST", api, "/handles/large", blocks(size), **headers) as response:
        assert response.status == 422
        assert b"urn:milepost:digest-mismatch" in response.read()
    assert api.everything() == before
    assert blob_files(server) == blobs


@pytest.mark.parametrize("position", [0, 32 * MIB, 64 * MIB - 1], ids=["first byte", "middle", "last byte"])
def test_damage_in_a_large_state_cuts_the_connection_before_its_end(
    server: ServerProcess, api: Api, position: int
) -> None:
    size = 64 * MIB
    store_state(server, api, "large", size)
    with blob_file(server, api.store, "large").open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 1]))
    with exchange(server, "GET", api, "/handles/large/state") as response:
        assert response.getheader("content-length") == str(size)
        with pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
    assert len(cut.value.partial) < size


def test_a_range_of_a_large_state(server: ServerProcess, api: Api) -> None:
    size = 8 * MIB + 5
    store_state(server, api, "large", size)
    whole = b"".join(blocks(size))
    for start, end in ((0, 1), (MIB - 1, 3 * MIB + 1), (size - 5, size), (0, size)):
        response = api.state("large", Range=f"bytes={start}-{end - 1}")
        assert response.status_code == 206
        assert response.content == whole[start:end]
