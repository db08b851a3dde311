"""A service with something worth a backup, and another one, empty, to restore it into."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import milepost
from tests.client.cli.conftest import ended, started
from tests.client.conftest import Service, serving
from tests.wire.webhdfs.hadoop import Tree

LARGE = bytes(range(256)) * 8192
EPOCHS = 3
"""How many epochs the job has had."""


@dataclass(frozen=True)
class Job:
    """A store with handles and files: a pinned snapshot of batch 0, and a last snapshot of batch 2."""

    name: str
    service: Service
    files: dict[str, bytes]
    kept: dict[str, bytes]


@pytest.fixture(scope="session")
def job(service: Service) -> Iterator[Job]:
    """Its last driver has resigned. The store beside it has one handle and never had an epoch. No test changes them."""
    name = f"store-{uuid.uuid4().hex[:12]}"
    with (
        milepost.Client(service.url) as client,
        client.session(ttl=600) as session,
        httpx.Client(base_url=service.url, timeout=60.0) as http,
    ):
        store = session.store(name)
        for _ in range(EPOCHS):
            epoch = store.campaign().epoch
            if epoch < EPOCHS:
                store.resign()
        store.add_and_lock("empty", b"")
        store.add_and_lock("latest", b"state of " + name.encode(), labels={"batch": "2"})
        store.add_and_lock("large", LARGE)
        session.store(f"{name}-plain").add_and_lock("only", b"plain")
        tree, files = Tree(http, name, epoch), {"checkpoint/metadata": b"{}", "checkpoint/sources/0/empty": b""}
        kept: dict[str, bytes] = {}
        for batch in range(3):
            files[f"checkpoint/offsets/{batch}"] = b"offsets %d" % batch
            files["checkpoint/state/0"] = b"%s %d" % (name.encode(), batch) * 500
            files[f"checkpoint/state/{batch}.delta"] = name.encode() * 1000
            files[f"checkpoint/commits/{batch}"] = b"v1 %d" % batch
            for path, content in files.items():
                assert tree.create(path, content, overwrite=True).status_code == 201
            if batch == 0:
                store.files.make_savepoint("savepoint")
                kept = dict(files)
                assert tree.delete("checkpoint/state/0.delta").status_code == 200
                del files["checkpoint/state/0.delta"]
        assert tree.mkdirs("checkpoint/empty").status_code == 200
        assert tree.create("checkpoint/commits/2", files["checkpoint/commits/2"], overwrite=True).status_code == 201
        store.resign()
        yield Job(name, service, files, kept)


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service in which nothing is, and which grants only epochs above the job's."""
    with serving(tmp_path_factory.mktemp("empty"), "--epochs-above", str(EPOCHS)) as running:
        yield running


@pytest.fixture(scope="session")
def saved(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of the job's store and of the one beside it."""
    path = tmp_path_factory.mktemp("saved") / "backup.tar"
    end = ended(started(job.service.url, "backup", str(path), "--store", f"{job.name}*", "--json"))
    assert end.returncode == 0, end.stderr.decode()
    counts = json.loads(end.stdout)
    assert {key: counts[key] for key in ("stores", "handles", "damaged")} == {"stores": 2, "handles": 4, "damaged": 0}
    return path


def content_of(url: str, job: str, snapshot: str = "") -> dict[str, bytes]:
    """All files of a job, or of a snapshot of it, by path."""
    found: dict[str, bytes] = {}
    with httpx.Client(base_url=url, timeout=60.0) as http:
        tree = Tree(http, job)

        def look(directory: str) -> None:
            answer: Any = tree.ask("GET", directory, "LISTSTATUS").json()
            for status in answer["FileStatuses"]["FileStatus"]:
                path = f"{directory}/{status['pathSuffix']}".lstrip("/")
                if status["type"] == "DIRECTORY":
                    look(path)
                else:
                    found[path] = tree.read(path).content

        look(snapshot)
    return {path.removeprefix(f"{snapshot}/"): content for path, content in found.items()}
