"""507 ``storage-full``: a disk that is really full, and writes that the operating system really cuts."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

import httpx
import pytest

from testbed.server import ServerProcess
from tests.support.servers.small_disk import lasting, small_disk
from tests.support.states import is_state
from tests.wire.support.api import Api, connect, problem, until
from tests.wire.support.damage import database
from tests.wire.support.unchanged import nothing_changed


@contextmanager
def files_up_to(server: ServerProcess, size: int) -> Iterator[None]:
    """No file of the server grows beyond ``size`` bytes (EFBIG) until the block ends."""
    before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)


MIB = 1024 * 1024


def test_no_room_for_the_bytes(api: Api, server: ServerProcess) -> None:
    version = api.added("there", b"old")["version"]
    large = b"x" * (21 * MIB)
    with nothing_changed(api, server), files_up_to(server, 20 * MIB):
        assert problem(api.add("a", large), 507, "storage-full")["retryable"] is False
        problem(api.add("a", iter([large])), 507, "storage-full")
        problem(api.replace("there", version, large), 507, "storage-full")
    assert api.state("there").content == b"old"
    assert api.add("a", b"small").status_code == 201


def test_a_disk_without_room(tmp_path: Path) -> None:
    """Bytes, and then pointers, until nothing more fits; then room is made.

    Where no small disk can be made, the server's files may not grow. Its bytes are refused in the same way then; what
    became of its pointers is not known for certain, so that they come out as unavailable.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    small = small_disk(disk, 8192)
    if small is None:
        no_file_may_grow(tmp_path)
    else:
        nothing_more_fits(tmp_path, disk, small)


def nothing_more_fits(tmp_path: Path, disk: Path, small: Sequence[str]) -> None:
    with (
        lasting(small) as inside_of_it,
        ServerProcess(
            tmp_path,
            pointers=f"embedded:{disk}/pointers",
            blobs=f"file:{disk}/blobs",
            wrapper=inside_of_it,
        ) as server,
        connect(server.start().url, timeout=120) as http,
    ):
        api = Api.on(http, "s")
        kept = filled(api)
        inside = Path(f"/proc/{server.pid}/root{disk}")
        before, blobs = api.everything(), states_below(inside / "blobs")
        assert len(blobs) == len(kept)
        problem(api.add("one-more", b"x" * MIB), 507, "storage-full")
        assert api.everything() == before
        assert states_below(inside / "blobs") == blobs

        fill_up(inside / "filler")
        opened = sessions_until_full(http)  # to the last byte; then the reserve is given up
        opened = others_may_come(http, opened + sessions_until_full(http))
        assert api.everything()["handles"] == before["handles"]
        assert [api.state(name).content for name in kept] == [b"x" * MIB] * len(kept)
        goes_on_without_room(api, kept)
        server.kill()
        fill_up(inside_of(server.start(), disk) / "more")
        goes_on_without_room(api, kept)
        assert "removals and locks" in server.logged()

        inside = inside_of(server, disk)
        for name in ("filler", "more"):
            (inside / name).unlink()
        (inside / "ballast").unlink()
        assert api.add("one-more", b"x" * MIB).status_code == 201
        assert [http.get(f"/v1/sessions/{each}").status_code for each in opened] == [200] * len(opened)


def inside_of(server: ServerProcess, disk: Path) -> Path:
    """The disk as the server sees it."""
    return Path(f"/proc/{server.pid}/root{disk}")


def goes_on_without_room(api: Api, kept: list[str]) -> None:
    """What does not grow goes on, what does is refused, and the replica says why."""
    assert api.http.post(f"/v1/sessions/{api.session}/keepalive").status_code == 200
    assert api.lock(kept[0]).status_code == 200
    assert api.release(kept[0]).status_code == 204
    for _ in range(100):
        assert api.lock(kept[0]).status_code == 200
    problem(api.add("one-more", b"small"), 507, "storage-full")
    problem(api.add("one-more", b"x" * MIB), 507, "storage-full")
    assert api.remove(kept.pop()).json() == {"removed": True}
    ready = api.http.get("/readyz?verbose")
    assert (ready.status_code, "full: the disk of" in ready.text) == (200, True), ready.text
    assert "milepost_storage_full 1.0" in api.http.get("/metrics").text
    assert api.http.get("/leader").status_code == 200


def no_file_may_grow(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, connect(server.start().url, timeout=120) as http:
        api = Api.on(http, "s")
        api.added("kept", b"x" * MIB)
        with nothing_changed(api, server), files_up_to(server, MIB):
            problem(api.add("one-more", b"x" * MIB + b"x"), 507, "storage-full")
        log = database(server).with_name("pointers.db-wal")
        with files_up_to(server, log.stat().st_size):
            refused = api.keyed("k").add("small")
            code = refused.json()["type"].rpartition(":")[2]
            outcome = {"outcome-unknown": "unknown", "storage-unavailable": "not_applied"}[code]
            assert problem(refused, 503, code, outcome)["retryable"] is True
            assert api.state("kept").content == b"x" * MIB
        until(lambda: api.keyed("k", attempt=2).add("small").status_code == 201, "it goes on")
        assert api.add("one-more", b"x" * MIB + b"x").status_code == 201


def states_below(directory: Path) -> set[str]:
    files = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
    return set(filter(is_state, files))


def filled(api: Api) -> list[str]:
    """Add states of a mebibyte until there is no room for one more; the names of those that were added."""
    for number in range(100):
        response = api.add(f"a{number}", b"x" * MIB)
        if response.status_code != 201:
            problem(response, 507, "storage-full")
            return [f"a{each}" for each in range(number)]
    pytest.fail("the disk never fills up")


def others_may_come(http: httpx.Client, opened: list[str]) -> list[str]:
    """Sessions that ended make room for as many others, time and again; the ids of those that live in the end."""
    for _ in range(3):
        for session in opened:
            assert http.delete(f"/v1/sessions/{session}").status_code == 204
        opened = sessions_until_full(http)
        assert len(opened) == 64
    return opened


def fill_up(path: Path) -> None:
    """Take all the room that is left on the disk of ``path``."""
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        file.writelines(repeat(bytes(4096)))


def sessions_until_full(http: httpx.Client) -> list[str]:
    """Open sessions, which takes pointers alone, until there is no room for one more; the ids of those opened."""
    opened: list[str] = []
    for _ in range(2000):
        response = http.post("/v1/sessions", json={"ttl": 3600, "holder": "h" * 200})
        if response.status_code != 201:
            problem(response, 507, "storage-full")
            return opened
        opened.append(response.json()["session"])
    pytest.fail("the database never runs out of room")
