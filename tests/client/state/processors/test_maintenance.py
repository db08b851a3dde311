"""Snapshots and clean-up that tasks do, beside what the driver has published: nothing of that may be lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost.state.errors import InvalidUse, StateDamaged
from milepost.state.processors.cache import STORES
from milepost.state.processors.outputs import read_output
from milepost.state.processors.snapshot import store_of
from milepost.state.store import FileStateStoreProvider
from tests.client.state.processors.test_task import Query, outputs, some


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks maintain their store before they return, after every commit, and with a snapshot of each."""

    def maintain(_self: object, provider: FileStateStoreProvider, *, in_background: bool) -> None:
        assert in_background
        provider.do_maintenance()

    monkeypatch.setattr(type(STORES), "maintain", maintain)
    monkeypatch.setattr("milepost.state.processors.task._SNAPSHOT_EVERY", 1)


@pytest.mark.parametrize("keep", [1, 2, 5])
@pytest.mark.usefixtures("at_once")
def test_what_is_published_stays_until_its_successor_is(tmp_path: Path, keep: int) -> None:
    """A task cleans up after a commit that its driver may never publish."""
    query = Query(tmp_path, keep=keep)
    states: list[dict[str, int]] = []
    for number in range(45):
        words = some(number, 3)
        work = query.work(2, number)
        if number % 3 == 2:
            query.stage(work, words)  # and the driver ended
            STORES._providers.clear()  # the next one has other workers
        done = query.stage(work, words)
        for behind, state in enumerate(reversed(states[-keep:])):
            assert query.state(number - behind) == state
        query.publish(work, done, words)
        states.append(query.state())
        assert query.state() == query.counts


def test_at_least_one_snapshot_is_kept(tmp_path: Path) -> None:
    query = Query(tmp_path, keep=0)
    with pytest.raises(InvalidUse, match="one"):
        query.batch(2, {"a": [1]})


@pytest.mark.parametrize("change", ["flipped", "shorter", "another"])
def test_output_in_files_proves_itself(tmp_path: Path, change: str) -> None:
    query = Query(tmp_path)
    words: dict[str, Any] = {f"w{number}": [1] for number in range(50)}
    done = query.stage(query.work(2, 0, inline=10), words)
    assert outputs(query.files, done) == dict.fromkeys(words, 1)
    (first,), (other,) = done[0].files, done[1].files
    content = (tmp_path / first).read_bytes()
    changed = {
        "flipped": content[:-40] + bytes((content[-40] ^ 1,)) + content[-39:],
        "shorter": content[:-8],
        "another": (tmp_path / other).read_bytes(),
    }[change]
    (tmp_path / first).write_bytes(changed)
    with pytest.raises(StateDamaged, match="outputs/words"):
        list(read_output(query.files, [first]))


def test_a_division_that_fails_holds_nothing_open(tmp_path: Path) -> None:
    """A file of a store that is taken over is damaged: that is told, and nothing of it is served."""
    query = Query(tmp_path)
    query.batch(2, some(1))
    (damaged,) = (tmp_path / "0" / "1" / "words.1x2").glob("*.delta")
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-60] + bytes((content[-60] ^ 1,)) + content[-59:])
    work = query.work(1, 1)
    with pytest.raises(StateDamaged, match=r"words\.1x2"):
        query.stage(work, some(2))
    provider = STORES.provider(work.loading, store_of("words", 2, 1, 0))
    assert len(provider._versions._idle) == 1
    damaged.write_bytes(content)
    query.batch(1, some(3))
    assert query.state() == query.counts


def test_what_is_taken_over_from_many_is_committed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many stores it comes from: each of these has less than what is held at most, and all have more."""
    query = Query(tmp_path)
    query.batch(32, some(1))
    monkeypatch.setattr("milepost.state.processors.task._COPY_BYTES", 1000)
    query.batch(1, some(2))
    assert query.snapshot is not None
    ((version, _),) = query.snapshot.layout.commits
    assert version > 3
    assert query.state() == query.counts
