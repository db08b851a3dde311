"""Files: any Arrow library reads them, parts are read alone, and damage is told and never served."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.errors import StateDamaged, StateError
from milepost.state.store import FileStateStoreProvider, MemoryFiles, ProviderSettings, StateStoreId
from milepost.state.store.format import files as state_files
from milepost.state.store.format.files import OpenedFile, batch_of, open_file, rows_of
from milepost.state.store.format.heads import RunHead
from milepost.state.store.format.names import Kind, StateFileName, parse_name
from milepost.state.store.rows import Op, Row, framed, unframed
from tests.client.state.conftest import Opener, commit, content
from tests.client.state.support.failing_files import FailingFiles

STORE = StateStoreId(0, 0)
DIGITS = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "name",
    [
        StateFileName(Kind.DELTA, 7, DIGITS),
        StateFileName(Kind.RUN, 10**18, DIGITS),
        StateFileName(Kind.SNAPSHOT, 7, DIGITS, DIGITS[::-1]),
        StateFileName(Kind.PIN, 7, DIGITS, "before-upgrade"),
        StateFileName(Kind.PIN, 7, DIGITS, DIGITS),
    ],
)
def test_a_name_is_read_as_it_is_written(name: StateFileName) -> None:
    assert parse_name(str(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        f"0_{DIGITS}.delta",
        f"07_{DIGITS}.delta",
        f"7_{DIGITS[1:]}.delta",
        f"7_{DIGITS.upper()}.delta",
        f"7_{DIGITS}_{DIGITS}.delta",
        f"7_{DIGITS}.snapshot",
        f"7_{DIGITS}_a.snapshot",
        f"7_{DIGITS}.pin",
        f"7_{DIGITS}.delta\n",
        "_metadata",
    ],
)
def test_other_names_are_nobodys(name: str) -> None:
    assert parse_name(name) is None


@given(st.lists(st.binary(max_size=300)), st.lists(st.binary(max_size=3)))
def test_values_lie_one_behind_the_other(one: list[bytes], more: list[bytes]) -> None:
    assert list(unframed(framed(one) + framed(more))) == one + more


def written(rows: list[Row], files: FailingFiles) -> OpenedFile:
    """A file of these rows, opened."""
    file = state_files.file_of(STORE, RunHead(0, 1), state_files.body_of(rows))
    name = StateFileName(Kind.RUN, 1, file.digest)
    files.create(f"{STORE.directory}/{name}", file.content)
    return open_file(files, STORE, name)


ROWS: list[Row] = [(b"\0\0\0\0" + b"%05d" % n, Op.PUT, random.Random(n).randbytes(1000)) for n in range(4000)]


def test_a_range_is_read_without_the_rest(files: FailingFiles) -> None:
    opened = written(ROWS, files)
    files.bytes_read = 0
    found = list(opened.rows(b"\0\0\0\x0002000", b"\0\0\0\x0002010"))
    assert found == ROWS[2000:2010]
    assert 0 < files.bytes_read < 2 * state_files.BATCH_BYTES < files.bytes_written / 3
    assert list(opened.rows()) == ROWS
    assert list(opened.rows(b"\1")) == []


def test_record_batches_are_bounded_and_their_keys_are_known(files: FailingFiles) -> None:
    opened = written(ROWS, files)
    assert len(opened.blocks) == 8
    assert [block.first for block in opened.blocks[1:]] == sorted(block.first for block in opened.blocks)[1:]
    assert all(block.length < state_files.BATCH_BYTES * 1.1 for block in opened.blocks)
    assert sum(block.rows for block in opened.blocks) == len(ROWS)


def test_any_arrow_library_reads_a_file(opened: Opener, files: FailingFiles) -> None:
    provider = opened()
    store = provider.get_store(0)
    store.create_column_family_if_absent("lists", multiple_values_per_key=True)
    store.put(b"a", b"1" * 1000)
    store.remove(b"b")
    store.merge(b"c", b"2", "lists")
    store.commit()
    (info,) = files.list(STORE.directory)
    with pa.ipc.open_stream(files.read(info.name, 0, info.size)) as stream:
        table = stream.read_all()
    assert table.to_pylist() == [
        {
            "op": [1, 2, 3],
            "shared": [0, 4, 3],
            "key_length": [5, 5, 5],
            "keys": b"\0\0\0\0ab\1c",
            "value_length": [1000, 0, 2],
            "values": b"1" * 1000 + b"\x012",
        }
    ]
    head = json.loads(table.schema.metadata[b"milepost.state"])
    assert {name: head[name] for name in ("format", "store", "kind", "version", "lineage", "families", "keys")} == {
        "format": 2,
        "store": {"operator": 0, "partition": 0, "name": "default"},
        "kind": "delta",
        "version": 1,
        "lineage": [],
        "families": {"default": [0, False], "lists": [1, True]},
        "keys": 2,
    }
    assert info.size < 2500  # compressed


@given(
    st.dictionaries(st.binary(max_size=5) | st.binary(min_size=300, max_size=600), st.binary(max_size=9), min_size=1)
)
def test_rows_are_read_as_they_are_written(pairs: dict[bytes, bytes]) -> None:
    alike = {b"\0\0\0\1" + b"k" * 300 + key: value for key, value in pairs.items()}
    rows: list[Row] = [(key, Op.PUT, value) for key, value in sorted({**pairs, **alike}.items())]
    assert rows_of(batch_of(rows)) == rows


def test_a_record_batch_that_is_not_made_of_rows_is_refused() -> None:
    batch = batch_of([(b"\0\0\0\0a", Op.PUT, b"12"), (b"\0\0\0\0b", Op.PUT, b"3")])
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    for change in (
        {"values": [b"1"]},
        {"keys": [b""]},
        {"shared": [[0]]},
        {"op": [[1, 1, 1]]},
        {"value_length": [[3]]},
    ):
        with pytest.raises(ValueError, match=r"parts|zip"):
            rows_of(pa.RecordBatch.from_pydict({**columns, **change}, schema=batch.schema))
    with pytest.raises(ValueError, match="0 rows"):
        rows_of(batch.slice(1))


def test_small_values_of_like_keys_take_few_bytes() -> None:
    chosen = sorted(random.Random(1).sample(range(100_000), 20_000))
    rows: list[Row] = [(b"\0\0\0\0key %08d" % key, Op.PUT, b"\0\x91\1") for key in chosen]
    assert sum(map(len, state_files.body_of(rows).messages)) < 2.5 * len(rows)


def test_a_store_of_format_1_is_read_and_goes_on(opened: Opener, files: FailingFiles) -> None:
    """Commits, a run and a snapshot as the first release of the store wrote them; what is added has the new format."""
    for name, text in json.loads(Path(__file__).with_name("format_1.json").read_text()).items():
        files.create(name, base64.b64decode(text))
    provider = opened(min_deltas_for_snapshot=2, merge_after=2)
    assert content(provider, 3) == {"a": "5" * 100, "abc": ""}
    commit(provider, 3, b="new")
    provider.do_snapshot_maintenance()
    for one in (provider, opened()):
        assert content(one, 4) == {"a": "5" * 100, "abc": "", "b": "new"}
        store = one.get_read_store(4)
        assert list(store.values_iterator(b"c", "lists")) == [b"3", b"4", b"6"]
        store.release()
    assert content(provider, 1) == {"a": "1", "b": "2"}
    reader = provider.get_range_reader(4)
    assert list(reader.range_scan(b"a", b"b")) == [(b"a", b"5" * 100), (b"abc", b"")]


def _stored(files: FailingFiles) -> dict[str, tuple[bytes, float]]:
    assert isinstance(files.files, MemoryFiles)
    return files.files._files


def test_any_damaged_byte_is_told(opened: Opener, files: FailingFiles) -> None:
    """Each file of a store with a snapshot, with a byte changed or cut off in many places: the content is right, or an
    error names a file.
    """
    provider = opened(min_deltas_for_snapshot=2)
    for version in range(3):
        commit(provider, version, a=str(version), b="2" * version, **{f"k{version}": "v"})
        provider.do_snapshot_maintenance()
    expected = content(provider, 3)
    stored = _stored(files)
    wanted = [name for name in stored if not name.rpartition("/")[2].startswith("1_")]
    told = set()
    for name in wanted:
        whole, age = stored[name]
        for place in {*range(0, len(whole), 97), *range(12), len(whole) - 9}:
            for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
                stored[name] = damaged, age
                try:
                    assert content(opened(min_deltas_for_snapshot=2), 3) == expected
                except StateDamaged as error:
                    told.add((name, error.path in stored))
        stored[name] = whole, age
    # Past a damaged snapshot there is a way.
    assert {(name.rpartition(".")[2], named) for name, named in told} == {("delta", True), ("run", True)}


def test_a_missing_file_of_a_run_is_damage_where_there_is_no_other_way(opened: Opener, files: FailingFiles) -> None:
    provider = opened(min_deltas_for_snapshot=2)
    for version in range(2):
        commit(provider, version, a=str(version))
    provider.do_snapshot_maintenance()
    (run,) = [name for name in _stored(files) if name.endswith(".run")]
    files.delete(run)
    assert content(opened(), 2) == {"a": "1"}  # by the commits
    (first,) = [name for name in _stored(files) if name.endswith(".delta") and "/1_" in name]
    files.delete(first)
    with pytest.raises(StateDamaged, match=r"the snapshot 2_.* needs it") as raised:
        content(opened(), 2)
    assert raised.value.path == run


def test_a_file_under_the_name_of_another_is_damage(opened: Opener, files: FailingFiles) -> None:
    """Also a good one: of another store, of another version, or of another kind."""
    provider = opened(min_deltas_for_snapshot=1)
    commit(provider, 0, a="1")
    other = FileStateStoreProvider(files, ProviderSettings(maintenance_interval=None))
    other.init(StateStoreId(9, 9))
    commit(other, 0, a="2")
    (mine,) = files.list("0/0/default")
    (theirs,) = files.list("9/9/default")
    foreign = theirs.name.replace("9/9", "0/0")
    files.create(foreign, files.read(theirs.name, 0, theirs.size))
    files.create(mine.name.replace("/1_", "/2_"), files.read(mine.name, 0, mine.size))
    files.create(mine.name.replace(".delta", ".run"), files.read(mine.name, 0, mine.size))
    id = foreign.rpartition("_")[2].removesuffix(".delta")
    with pytest.raises(StateDamaged, match="belongs to the store 9/9/default"):
        opened().get_store(1, id)
    with pytest.raises(StateDamaged, match="it is of version 1"):
        opened().get_store(2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 3}, "format 3"),
        ({"kind": "other"}, "a kind 'other'"),
        ({"lineage": [[5, "x"], [3, "y"]]}, "gap"),
        ({"families": None}, "cannot be read"),
        ({"keys": float("inf")}, "cannot be read"),
        ({"batches": [{}]}, "cannot be read"),
        ({"store": {}}, "cannot be read"),
        ({"store": {"operator": -1, "partition": 0, "name": "a"}}, "cannot be read"),
    ],
)
def test_a_head_of_another_time_is_told(
    monkeypatch: pytest.MonkeyPatch, opened: Opener, change: dict[str, Any], reason: str
) -> None:
    """Written by a version of this library to come, or by somebody else; so the digests are right."""
    dumps = json.dumps
    monkeypatch.setattr(json, "dumps", lambda document, **form: dumps({**document, **change}, **form))
    commit(opened(), 0, a="1")
    with pytest.raises(StateDamaged, match=reason):
        opened().get_store(1)


def test_every_error_can_be_pickled() -> None:
    """As when a task hands it to its driver."""
    import pickle

    from milepost.state import errors

    made: list[StateError] = [
        errors.Diverged("two", 3, ["a", "b"]),
        errors.StateDamaged("a/b", "it is torn"),
        errors.CommitUnknown("who knows"),
    ]
    for error in made:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
