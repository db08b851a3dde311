"""``milepost run`` for a job some of whose stored files are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import milepost
from tests.client.cli.test_run import JOB, Run, run
from tests.client.conftest import Service
from tests.client.test_files import LARGE
from tests.wire.webhdfs.hadoop import Tree

__all__ = ["run"]  # a fixture


@dataclass(frozen=True)
class Left:
    """What a driver has left: two batches, and the files in which the service keeps what belongs to them."""

    files: Tree
    older: Path
    newest: Path

    def state(self) -> bytes:
        """The state, as it is now."""
        return self.files.read("checkpoint/queries/q/state").content


@pytest.fixture
def left(service: Service, blocking: milepost.Client, name: str) -> Iterator[Left]:
    with httpx.Client(base_url=service.url, timeout=60.0) as http, blocking.session("the first") as session:
        store = session.store(name)
        files = Tree(http, name, store.campaign().epoch)
        states = [LARGE + f"of {name}, batch {batch}".encode() for batch in (0, 1)]
        for batch, content in enumerate(states):
            assert files.create("checkpoint/queries/q/state", content, overwrite=True).status_code == 201
            assert files.create(f"checkpoint/queries/q/commits/{batch}", b"v1").status_code == 201
        store.resign()
        yield Left(files, *map(service.blob, states))


def test_it_is_not_started_and_the_files_are_named(run: Run, left: Left) -> None:
    left.newest.unlink()
    running = run("--restarts", "0")
    assert running.ended() == 65
    assert "checkpoint/queries/q/state (the bytes of this state are gone)" in running.log()
    assert "whole snapshots: batch 0 of checkpoint/queries/q at revision" in running.log().lower()
    assert running.events() == []


def test_it_falls_back_if_it_is_told_to(run: Run, left: Left) -> None:
    before = left.older.read_bytes()
    left.newest.unlink()
    running = run("--if-damaged", "fall-back", program=JOB)
    assert running.ended() == 0
    assert len(running.starts()) == 1
    assert left.state() == before
    assert "going back to batch 0 of checkpoint/queries/q" in running.log()


def test_it_goes_on_if_it_is_told_to(run: Run, left: Left) -> None:
    left.older.unlink()
    running = run(program=JOB)
    assert running.ended() == 0, "nothing that is there now is damaged"
    assert "cannot go back to: batch 0 of checkpoint/queries/q" in running.log()
    left.newest.unlink()
    running = run("--if-damaged", "fall-back")
    assert running.ended() == 65
    assert "no snapshot is whole" in running.log()
    running = run("--if-damaged", "go-on", program=JOB)
    assert running.ended() == 0
    assert "going on all the same" in running.log()


def test_a_wrong_byte_is_found_after_a_start_that_failed(run: Run, left: Left) -> None:
    """Or before the first one, by who looks at each byte."""
    left.newest.write_bytes(left.newest.read_bytes()[:-1] + b"7")
    running = run("--restarts", "3", program=JOB + "sys.exit(3)")
    assert running.ended() == 65
    assert len(running.starts()) == 1
    assert "the stored bytes do not match their digest" in running.log()
    assert run("--digests").ended() == 65
