"""What the tree of a job adds to a place for files: the fence, copies in other processes, and snapshots of all
files.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import milepost
from milepost.state.errors import FileMissing, FilesError, FilesFenced, InvalidUse, StateDamaged, WriteUnknown
from milepost.state.store import Created, FileStateStoreProvider, ProviderSettings, StateStoreId, TreeFiles
from tests.client.conftest import Service
from tests.client.state.conftest import commit, content
from tests.client.state.support.trees import in_a_tree
from tests.support.network.gateway import Fault, Gateway
from tests.wire.webhdfs.hadoop import Tree

STORE = StateStoreId(0, 0)


@pytest.fixture
def place(service: Service, request: pytest.FixtureRequest) -> Iterator[TreeFiles]:
    with in_a_tree(service.url, request.node.name) as files:
        yield files


def job_of(place: TreeFiles) -> str:
    return str(place.__getstate__()["store"])


def test_a_copy_in_another_process_writes_under_the_same_epoch(place: TreeFiles) -> None:
    code = "import pickle, sys; files = pickle.load(sys.stdin.buffer); files.create('0/0/a', b'x'); files.close()"
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(place), check=True, timeout=120)
    assert place.read("0/0/a", 0, 9) == b"x"
    assert [info.name for info in place.list("0/0")] == ["0/0/a"]
    assert "epoch 1" in repr(pickle.loads(pickle.dumps(place)))


def test_a_token_is_not_shown(service: Service) -> None:
    files = TreeFiles(service.url, "shown", 1, token="secret-token-0123456789")
    assert "secret" not in repr(files)
    files.close()
    with pytest.raises(FilesError):
        files.read("a", 0, 1)


def test_a_zombie_writes_and_deletes_nothing_and_may_read(service: Service, place: TreeFiles) -> None:
    place.create("0/0/a", b"stays")
    with milepost.Client(service.url) as client, client.session(ttl=60) as session:
        job = f"{job_of(place)}-led-twice"
        old = TreeFiles(service.url, job, session.store(job).campaign().epoch)
        old.create("0/0/a", b"stays")
        session.store(job).resign()
        assert session.store(job).campaign().epoch == 2
        writes: list[Any] = [lambda: old.create("0/0/b", b"late"), lambda: old.create("0/0/a", b"")]
        for write in [*writes, lambda: old.delete("0/0/a")]:
            with pytest.raises(FilesFenced) as fenced:
                write()
            assert isinstance(fenced.value.__cause__, milepost.Fenced)
        assert old.read("0/0/a", 0, 9) == b"stays"
        assert [info.name for info in old.list("0/0")] == ["0/0/a"]
        old.close()


def test_an_answer_that_is_lost_leaves_the_outcome_unknown_and_the_same_call_settles_it(
    place: TreeFiles, proxy: Gateway
) -> None:
    """The gateway stands where a network would be that loses answers."""
    settings: Any = {**place.__getstate__(), "url": proxy.url}
    through, impatient = TreeFiles(**settings), TreeFiles(**{**settings, "timeout": 10.0})
    assert through.create("0/0/before", b"x") is Created.DONE
    proxy(Fault(lambda request: request.method == "PUT", lose_answer=True))
    with pytest.raises(WriteUnknown):
        impatient.create("0/0/a", b"content")
    proxy()
    assert through.create("0/0/a", b"content") is Created.EXISTS
    assert through.read("0/0/a", 0, 99) == b"content"
    through.close()
    impatient.close()


def test_a_service_that_is_away_did_nothing_for_certain(place: TreeFiles) -> None:
    settings: Any = {**place.__getstate__(), "url": "http://127.0.0.1:9", "timeout": 0.5}
    away = TreeFiles(**settings)
    calls: list[Any] = [lambda: away.create("a", b""), lambda: away.read("a", 0, 1), lambda: away.list("a")]
    for call in calls:
        with pytest.raises(FilesError) as raised:
            call()
        assert not isinstance(raised.value, (FileMissing, FilesFenced))
    away.close()


def test_damaged_bytes_are_named(service: Service, place: TreeFiles) -> None:
    written = f"what was written for {job_of(place)}, and nothing else".encode()
    place.create("0/0/a", written)
    service.blob(written).write_bytes(b"x")
    with pytest.raises(StateDamaged) as raised:
        place.read("0/0/a", 0, 1 << 20)
    assert raised.value.path == "0/0/a"


def test_a_name_that_would_go_with_the_next_epoch_is_refused(place: TreeFiles) -> None:
    with pytest.raises(InvalidUse, match="temporary"):
        place.create("0/0/__temp-1", b"")


def test_a_store_stays_where_the_job_goes_back_without_it(service: Service, place: TreeFiles) -> None:
    """As a driver does that falls back: also to a snapshot of before there was any state."""
    with milepost.Client(service.url) as client, httpx.Client(base_url=service.url, timeout=60.0) as http:
        assert Tree(http, job_of(place), 1).create("checkpoint/commits/0", b"v1").status_code == 201
        (snapshot,) = client.store(job_of(place)).files.snapshots().snapshots
        place.create("0/0/default/a", b"state")
        with client.session() as session:
            session.store(job_of(place)).under(1).files.roll_back(snapshot.revision, keep=["_milepost"])
    assert [info.name for info in place.list("0/0/default")] == ["0/0/default/a"]
    assert place.read("0/0/default/a", 0, 9) == b"state"
    assert place.create("0/0/default/b", b"more") is Created.DONE


def test_a_store_in_the_tree_goes_back_with_the_job(service: Service, place: TreeFiles) -> None:
    """What Spark wrote beside it stays as it is, and a snapshot shows both as they were."""
    settings = ProviderSettings(maintenance_interval=None)
    provider = FileStateStoreProvider(place, settings)
    provider.init(STORE)
    with milepost.Client(service.url) as client, httpx.Client(base_url=service.url, timeout=60.0) as http:
        spark = Tree(http, job_of(place), 1)
        first = commit(provider, 0, a="1")
        assert spark.create("checkpoint/commits/0", b"v1").status_code == 201
        job = client.store(job_of(place)).files
        (snapshot,) = job.snapshots().snapshots
        newest = first
        for version in range(1, 8):
            newest = commit(provider, version, newest, a=str(version + 1))
        place.delete(f"{STORE.directory}/1_{first}.delta")  # as clean-up does, once it is old
        kept = [info.name for info in place.list(STORE.directory)]
        assert len(kept) == 7
        assert not any(first in name for name in kept)
        assert spark.read("checkpoint/commits/0").content == b"v1"
        shown = [entry.path for entry in job.list(f".snapshot/{snapshot.name}/_milepost/state/{STORE.directory}")]
        assert len(shown) == 1
        assert first in shown[0]
        assert job.verify(digests=True).intact
        provider.close()
        with client.session() as session:
            session.store(job_of(place)).under(1).files.roll_back(snapshot.revision)
    again = FileStateStoreProvider(place, settings)
    again.init(STORE)
    assert again.latest_version() == 1
    assert content(again, 1, first) == {"a": "1"}
    again.close()
