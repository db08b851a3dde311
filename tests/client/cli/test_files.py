"""``milepost files`` over the real service."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

import milepost
from tests.client.cli.conftest import Run, Said
from tests.client.conftest import Service
from tests.wire.webhdfs.hadoop import Tree


def state(job: str, batch: int) -> bytes:
    """A state that is kept in a blob, and that no other has."""
    return b"%s %d " % (job.encode(), batch) * 500


@pytest.fixture
def job(service: Service, name: str) -> Iterator[str]:
    """A job with two cuts that nobody leads."""
    with (
        milepost.Client(service.url) as client,
        client.session(ttl=60) as session,
        httpx.Client(base_url=service.url) as http,
    ):
        store = session.store(name)
        tree = Tree(http, name, store.campaign().epoch)
        for batch in range(2):
            assert tree.create("checkpoint/state", state(name, batch), overwrite=True).status_code == 201
            assert tree.create(f"checkpoint/commits/{batch}", b"v1").status_code == 201
        store.resign()
        yield name


def test_cuts_are_listed_pinned_and_gone_back_to(said: Said, run: Run, job: str) -> None:
    listed = json.loads(said("--json", "files", "cuts", job))
    first, second = listed
    assert [(cut["snapshot"], cut["directory"], cut["batch"]) for cut in listed] == [
        (f"@{cut['revision']}", "checkpoint", batch) for batch, cut in enumerate(listed)
    ]
    revision = first["revision"]
    assert said("files", "pin", job, "savepoint", "--revision", str(revision)) == (
        f"savepoint keeps the cut at revision {revision}\n"
    )
    assert said("files", "roll-back", job, str(revision)) == f"the files are those of revision {revision} again\n"
    assert [line.split()[0] for line in said("files", "cuts", job).splitlines()] == [
        "SNAPSHOT",
        first["snapshot"],
        "savepoint",
    ]
    assert said("files", "unpin", job, "savepoint") == "savepoint keeps no cut\n"
    ended = run("files", "roll-back", job, str(second["revision"]))
    assert (ended.returncode, ended.stderr.split(b":")[0]) == (1, b"NotExist")


def test_a_job_is_cloned(said: Said, run: Run, job: str) -> None:
    said("files", "pin", job, "savepoint")
    size = len(state(job, 1)) + 4
    assert said("files", "clone", job, "savepoint", f"{job}-b") == f"{job}-b begins with 3 files of {size} bytes\n"
    assert [cut["batch"] for cut in json.loads(said("--json", "files", "cuts", f"{job}-b"))] == [1]
    ended = run("files", "clone", job, "savepoint", f"{job}-b")
    assert (ended.returncode, ended.stderr.split(b":")[0]) == (1, b"NotEmpty")


def test_damage_is_shown_and_is_the_exit_status(said: Said, run: Run, job: str, service: Service) -> None:
    found = json.loads(said("--json", "files", "verify", job, "--digests"))
    assert (found["intact"], found["damaged"]) == (True, [])
    content = state(job, 1)
    (blob,) = (path for path in (service.data / "blobs").rglob("*") if path.is_file() and path.read_bytes() == content)
    blob.write_bytes(content[::-1])
    assert run("files", "verify", job).returncode == 0
    ended = run("--json", "files", "verify", job, "--digests")
    assert ended.returncode == 1
    assert [file["path"] for file in json.loads(ended.stdout)["damaged"]] == ["checkpoint/state"]


def test_nothing_is_gone_back_to_under_a_driver(run: Run, job: str, service: Service) -> None:
    with milepost.Client(service.url) as client, client.session(ttl=60, holder="driver") as session:
        session.store(job).campaign()
        ended = run("files", "roll-back", job, "1")
    assert ended.returncode == 1
    assert b"driver" in ended.stderr
