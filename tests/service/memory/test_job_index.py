"""Which stores are jobs, whatever became of their records in what order."""

from __future__ import annotations

from milepost_server.memory.state import State
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt, Record, Store, handle_key, store_key, tree_key
from milepost_server.model.trees import Tree, TreeSnapshot


def jobs(state: State) -> list[str]:
    found = list(state.jobs.after(""))
    assert len(state.jobs) == len(found)
    return found


def test_a_job_is_a_store_with_an_epoch_or_a_snapshot_or_a_record_that_cannot_be_read() -> None:
    state = State()
    snapshot = (TreeSnapshot("q", 1, 2),)
    records: dict[str, Record | None] = {
        store_key("epoch"): Store("epoch", epoch=1),
        store_key("plain"): Store("plain", cleared=3),
        handle_key("handles", "h"): Corrupt("h", "damaged"),
        tree_key("snapshot"): Tree("snapshot", snapshots=snapshot),
        tree_key("tree"): Tree("tree"),
        path_key("file", "a"): Corrupt("a", "damaged"),
        store_key("damaged"): Corrupt("damaged", "damaged"),
        tree_key("damaged-tree"): Corrupt("damaged-tree", "damaged"),
    }
    state.apply(records.items())
    assert jobs(state) == ["damaged", "damaged-tree", "epoch", "snapshot"]
    assert list(state.jobs.after("damaged-tree")) == ["epoch", "snapshot"]


def test_the_index_follows_both_records() -> None:
    state = State()
    steps: list[tuple[str, Record | None, list[str]]] = [
        (tree_key("a"), Tree("a", snapshots=(TreeSnapshot("q", 1, 2),)), ["a"]),
        (store_key("a"), Store("a", epoch=1), ["a"]),
        (tree_key("a"), Tree("a"), ["a"]),
        (store_key("a"), Store("a", epoch=2), ["a"]),
        (tree_key("a"), None, ["a"]),
        (store_key("a"), None, []),
        (store_key("a"), Corrupt("a", "damaged"), ["a"]),
        (store_key("a"), Store("a"), []),
    ]
    for key, record, expected in steps:
        state.apply([(key, record)])
        assert jobs(state) == expected, (key, record)
