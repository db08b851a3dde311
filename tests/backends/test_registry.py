"""Which backend stands behind an address, and how another distribution adds one."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost_backends.contract import BlobsSettings, Misconfigured, PointersSettings
from milepost_backends.registry import make_blobs, make_pointers
from milepost_server.compose import ReplicaConfig, open_replica
from milepost_server.model.requests.base import Attempt
from milepost_server.replica.replica import Replica
from milepost_server.replica.submitter import Caller
from tests.contracts.state_handle_store.frontends.actor import Actor
from tests.contracts.state_handle_store.frontends.use_case_frontend import UseCaseFrontend
from tests.service.acting import STORE
from tests.support.distribution import install
from tests.support.servers.replicas import PROMPT
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

ME = PointersSettings("http://127.0.0.1:7070")
BLOBS = BlobsSettings(10.0)


def installed(directory: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    """Make a distribution of that entry point, and put it on the path for the rest of the test."""
    install(directory, entry)
    monkeypatch.syspath_prepend(str(directory))


async def test_another_distribution_adds_a_backend_that_a_replica_leads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "memory = tests.backends.memory_backend:BACKEND")
    config = ReplicaConfig(f"memory:{tmp_path}", f"file:{tmp_path / 'blobs'}", ME.advertise, "replica")
    replica = open_replica(config, PROMPT)
    await replica.start()
    try:
        await until(lambda: _leads(replica))
        frontend = UseCaseFrontend(lambda: replica)
        await frontend.open_session("a", 600.0)
        acting = Actor(frontend, STORE, Caller(Attempt("a")))
        await acting.add("pointer", b"state")
        assert await acting.read("pointer") == b"state"
    finally:
        await replica.stop()


def test_what_it_stands_for_is_listed_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "memory = tests.backends.memory_backend:BACKEND")
    with pytest.raises(Misconfigured, match=r"the scheme 'nowhere'; use embedded:DIR, .* or memory:NAME"):
        make_pointers("nowhere:", ME)
    with pytest.raises(Misconfigured, match="no blob store for the scheme 'memory'") as caught:
        make_blobs("memory:here", BLOBS)
    assert "memory:NAME" not in str(caught.value)
    with pytest.raises(Misconfigured, match="has a name: memory:NAME"):
        make_pointers("memory:", ME)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "broken = no_such_package:BACKEND",
            r"cannot load the backend 'broken' \(no_such_package:BACKEND\): No module named",
        ),
        ("broken = tests.backends.memory_backend:NOTHING", "cannot load .* has no attribute 'NOTHING'"),
        ("broken = toy_that_raises:BACKEND", r"cannot load the backend 'broken' .*RuntimeError\('not today'\)"),
        ("broken = toy_that_is_no_python:BACKEND", "cannot load the backend 'broken' .*SyntaxError"),
        ("broken = m:BACK END [[", r"cannot load the backend 'broken' \(m:BACK END \[\[\)"),
        ("broken = toy_that_makes_nothing:BACKEND", "the backend 'broken' cannot be made for this URL: TypeError"),
        ("broken = toy_that_makes_nothing:FAULTY", "the backend 'broken' cannot be made for this URL: KeyError"),
        (
            "broken = tests.backends.memory_backend.pointers:MemoryPointers",
            "is not a milepost_backends.contract.Backend",
        ),
    ],
)
def test_one_that_is_broken_is_named_to_who_asks_for_it_and_stands_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, message: str
) -> None:
    installed(tmp_path, monkeypatch, entry)
    (tmp_path / "toy_that_raises.py").write_text("raise RuntimeError('not today')")
    (tmp_path / "toy_that_is_no_python.py").write_text("def")
    (tmp_path / "toy_that_makes_nothing.py").write_text(
        "from milepost_backends.contract import Backend\n"
        "BACKEND = Backend('broken:NAME', pointers=lambda url, settings: None)\n"
        "FAULTY = Backend('broken:NAME', pointers=lambda url, settings: {}[url])\n"
    )
    with pytest.raises(Misconfigured, match=message):
        make_pointers("broken:here", ME)
    with pytest.raises(Misconfigured, match="the scheme 'other'"):
        make_pointers("other:here", ME)


def test_a_scheme_that_two_distributions_add_is_taken_from_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the order of the path would decide in which store the records are."""
    for name, attribute in (("toy-one", "BACKEND"), ("toy-two", "OTHER")):
        install(tmp_path / name, f"memory = tests.backends.memory_backend:{attribute}", name)
        monkeypatch.syspath_prepend(str(tmp_path / name))
    with pytest.raises(Misconfigured, match=r"more than one .* 'memory': .*\(of toy-one\) and .*\(of toy-two\)"):
        make_pointers("memory:here", ME)
    with pytest.raises(Misconfigured, match="the scheme 'other'"):
        make_pointers("other:here", ME)


def test_a_scheme_of_this_distribution_is_taken_from_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "embedded = tests.backends.memory_backend:BACKEND")
    pointers, _ = make_pointers(f"embedded:{tmp_path}", ME)
    assert pointers.place == f"embedded:{tmp_path.resolve()}"


def test_an_address_without_a_place_is_refused_by_name() -> None:
    for url in ("embedded:", "file:", "s3:bucket", "hdfs://host", "kubernetes:", "zookeeper:h", ""):
        with pytest.raises(Misconfigured):
            make_pointers(url, ME)
        with pytest.raises(Misconfigured):
            make_blobs(url, BLOBS)


async def _leads(replica: Replica) -> bool:
    return replica.leads
