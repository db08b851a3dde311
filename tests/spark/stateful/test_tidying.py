"""What is left of layouts of a state that nobody goes on from."""

from __future__ import annotations

from dataclasses import replace

from milepost.spark.managed.stateful import _remove_retired
from milepost.state.key_groups import KeyGroups
from milepost.state.processors import GroupingKey, TimeMode
from milepost.state.processors.snapshot import first_snapshot, store_of
from milepost.state.store import MemoryFiles


def test_stores_go_of_divisions_that_are_retired_or_were_never_published() -> None:
    files = MemoryFiles()
    key = GroupingKey([("k", "string")])
    snapshot = first_snapshot("words", 0, key, KeyGroups(16), ((1, "a"),), {}, TimeMode.NONE)
    snapshot = snapshot.after(1, ((1, "b"), (1, "c")), 2, {}, 5, TimeMode.NONE)
    for layout, partitions in ((1, 1), (2, 2), (2, 16), (2, 3), (3, 4)):
        for partition in range(partitions):
            files.create(f"{store_of('words', layout, partitions, partition).directory}/1", b"")
    _remove_retired(files, snapshot)
    assert _there(files) == [(1, 1), (2, 2), (3, 4)]
    _remove_retired(files, replace(snapshot, retired=((1, 1),)))
    assert _there(files) == [(2, 2), (3, 4)]


def _there(files: MemoryFiles) -> list[tuple[int, int]]:
    layouts = ((1, 1), (2, 2), (2, 16), (2, 3), (3, 4))
    return [
        (layout, count)
        for layout, count in layouts
        if any(files.list(store_of("words", layout, count, partition).directory) for partition in range(count))
    ]
