"""The paths of trees in order, whatever characters their names have."""

from __future__ import annotations

from itertools import islice

import pytest

from milepost_server.memory.state import State
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.paths import MOST_BYTES, checked_path, path_key
from milepost_server.model.records import tree_key
from milepost_server.model.trees import Entry, Tree, TreePath

STORE = "job"
LAST_CHARACTER = "\U0010ffff"
NAMES = ("0", LAST_CHARACTER, LAST_CHARACTER + "0", LAST_CHARACTER * ((MOST_BYTES - 2) // 4))


@pytest.mark.parametrize("compacted", [False, True], ids=["records", "manifest"])
def test_a_listing_passes_names_that_sort_after_all_others(compacted: bool) -> None:
    paths = sorted(["d", *(checked_path(f"d/{name}") for name in NAMES), "d0", *NAMES[1:]])
    records = [TreePath(path, (Entry(1, "", deleted_revision=7),)) for path in paths]
    state = State()
    if compacted:
        rows = ManifestRows.of(records)
        state.hold("blob", rows)
        state.apply([(tree_key(STORE), Tree(STORE, manifests=(rows.manifest("blob"),)))])
    else:
        state.apply([(path_key(STORE, record.path), record) for record in records])
        assert [path for _, path in state.dead_paths(STORE, (0, ""), 7)] == paths
    many = len(paths) + 1  # a listing that does not get past a name would never end
    assert list(islice(state.children(STORE, ""), many)) == ["d", "d0", *sorted(NAMES[1:])]
    assert list(islice(state.children(STORE, "d"), many)) == sorted(f"d/{name}" for name in NAMES)
