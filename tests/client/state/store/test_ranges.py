"""Ranges of a version, read straight from its files: the same as from the version that is loaded, and no more bytes."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.errors import InvalidUse, StateDamaged, UnknownFamily, VersionNotFound
from milepost.state.store import FileStateStoreProvider, MemoryFiles, ProviderSettings, StateStoreId
from milepost.state.store.format import files as state_files
from tests.client.state.conftest import Opener
from tests.client.state.support.failing_files import FailingFiles

NAMES = st.text("abc", max_size=3).map(str.encode)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "merge", "remove_list", "drop"]), NAMES, st.binary(max_size=3)),
    max_size=8,
)
BOUNDS = st.none() | NAMES


@given(commits=st.lists(CHANGES, min_size=1, max_size=8), start=BOUNDS, end=BOUNDS, after=st.integers(1, 4))
def test_a_range_is_what_the_loaded_version_has(
    commits: list[list[tuple[str, bytes, bytes]]], start: bytes | None, end: bytes | None, after: int
) -> None:
    settings = ProviderSettings(
        maintenance_interval=None, min_deltas_for_snapshot=2, merge_after=after, part_bytes=20, merge_ratio=1
    )
    provider = FileStateStoreProvider(MemoryFiles(), settings)
    provider.init(StateStoreId(0, 0))
    with patch.object(state_files, "BATCH_BYTES", 12):
        for version, changes in enumerate(commits):
            store = provider.get_store(version)
            for act, key, value in changes:
                store.create_column_family_if_absent("lists", multiple_values_per_key=True)
                if act == "put":
                    store.put(key, value)
                elif act == "remove":
                    store.remove(key)
                elif act == "merge":
                    store.merge(key, value, "lists")
                elif act == "remove_list":
                    store.remove(key, "lists")
                else:
                    store.remove_column_family_if_exists("lists")
            store.create_column_family_if_absent("lists", multiple_values_per_key=True)
            store.commit()
            provider.do_snapshot_maintenance()
        for version in range(1, len(commits) + 1):
            reader, loaded = provider.get_range_reader(version), provider.get_read_store(version)
            assert reader.all_column_family_names() == loaded.all_column_family_names()
            for _ in range(2):  # what was opened once is read again
                assert list(reader.range_scan(start, end)) == list(loaded.range_scan(start, end))
                assert [
                    (key, value) for key, values in reader.range_scan_lists(start, end, "lists") for value in values
                ] == list(loaded.range_scan_with_multi_values(start, end, "lists"))
            loaded.release()
    provider.close()


@pytest.mark.parametrize("merge", [True, False])
def test_no_more_is_read_than_the_range_needs(opened: Opener, files: FailingFiles, merge: bool) -> None:
    provider = opened(part_bytes=20_000, min_deltas_for_snapshot=1)
    store = provider.get_store(0)
    for number in range(1000):
        store.put(b"%04d" % number, bytes(100) + b"%04d" % number)
    with patch.object(state_files, "BATCH_BYTES", 2000), patch.object(state_files, "_FIRST_READ", 1024):
        store.commit()
        if merge:
            provider.do_snapshot_maintenance()
        files.bytes_read = 0
        assert len(list(provider.get_range_reader(1).range_scan(b"0500", b"0550"))) == 50
        few = files.bytes_read
        files.bytes_read = 0
        assert len(list(provider.get_range_reader(1).range_scan(None, None))) == 1000
        heads = 20_000 if not merge else 10_000  # the head of a commit tells of all its record batches
        assert few < heads + files.bytes_read / 8


def test_what_is_wrong_is_told(opened: Opener, files: FailingFiles) -> None:
    provider = opened()
    assert list(provider.get_range_reader(0).range_scan(None, None)) == []
    store = provider.get_store(0)
    store.put(b"a", bytes(2000))
    store.create_column_family_if_absent("lists", multiple_values_per_key=True)
    store.commit()
    reader = provider.get_range_reader(1)
    with pytest.raises(UnknownFamily, match="nowhere"):
        reader.range_scan(None, None, "nowhere")
    with pytest.raises(InvalidUse, match="several values"):
        reader.range_scan(None, None, "lists")
    with pytest.raises(InvalidUse, match="one value"):
        reader.range_scan_lists(None, None)
    for wrong in ((2, None), (1, "0" * 32)):
        with pytest.raises(VersionNotFound):
            provider.get_range_reader(*wrong)
    (path,) = (info.name for info in files.list("0/0/default"))
    content = bytearray(files.read(path, 0, 1 << 20))
    content[-30] ^= 1
    files.delete(path)
    files.create(path, bytes(content))
    with pytest.raises(StateDamaged, match="another digest"):
        list(provider.get_range_reader(1).range_scan(None, None))
