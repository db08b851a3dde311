"""Tasks of a batch without Spark: divided, run twice, lost between staging and publishing, and divided anew."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.state.errors import InvalidUse, StateDamaged, VersionNotFound
from milepost.state.key_groups import KeyGroups
from milepost.state.processors import Batch, BatchTimes, GroupingKey, TimeMode, declared
from milepost.state.processors.cache import STORES, Loading
from milepost.state.processors.outputs import read_output
from milepost.state.processors.reading import StateReader
from milepost.state.processors.snapshot import Commits, Snapshot, first_snapshot, snapshots_of
from milepost.state.processors.task import Done, Work, work_on
from milepost.state.store import LocalFiles
from tests.client.state.processors.test_running import parse

KEY = GroupingKey([("word", "string")])
GROUPS = KeyGroups(32)
OUTPUT = pa.schema([("word", pa.string()), ("count", pa.int64())])


class Counting:
    """Counts rows, and keeps the last three of each key, and the lengths it saw, in a list and a map."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")
        self.rows = handle.getListState("rows", "n long")
        self.seen = handle.getMapState("seen", "n long", "times long")

    def handleInputRows(self, key: Any, rows: Iterator[int], _times: Any) -> Iterator[tuple[str, int]]:
        (count,) = self.count.get() or (0,)
        for row in rows:
            count += 1
            self.rows.appendValue((row,))
            (before,) = self.seen.getValue((row,)) or (0,)
            self.seen.updateValue((row,), (before + 1,))
        self.count.update((count,))
        yield key[0], count

    def close(self) -> None:
        pass


VARIABLES = declared(Counting().init, TimeMode.NONE, parse)[0]


@dataclass
class Query:
    """What the driver does, on a directory of this machine."""

    directory: Path
    memory: int = 1 << 28
    keep: int = 100
    published: dict[str, Any] | None = None
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def files(self) -> LocalFiles:
        return LocalFiles(self.directory)

    @property
    def snapshot(self) -> Snapshot | None:
        return None if self.published is None else Snapshot.from_json("words", self.published)

    @property
    def reader(self) -> StateReader:
        assert self.snapshot is not None
        return StateReader(self.files, self.snapshot)

    def work(self, partitions: int, number: int, inline: int = 1 << 20) -> Work:
        before = self.snapshot
        same = before is not None and before.partitions == partitions
        return Work(
            name="words",
            number=number,
            loading=pickle.dumps(Loading(self.files, self.memory, keep=self.keep)),
            partitions=partitions,
            layout=1 if before is None else before.layout.number + (not same),
            batch=Batch(KEY, VARIABLES, GROUPS, TimeMode.NONE, BatchTimes()),
            processor=Counting(),
            frames=False,
            schema=OUTPUT,
            timezone="UTC",
            inline_bytes=inline,
            begin=before.layout.commits if before is not None and same else None,
            older=before.layout if before is not None and not same else None,
        )

    def stage(self, work: Work, words: Mapping[str, list[int]]) -> list[Done]:
        rows: list[list[Any]] = [[] for _ in range(work.partitions)]
        for word, values in words.items():
            key = KEY.encode((word,))
            rows[GROUPS.task_of(GROUPS.group(key), work.partitions)].append((key, iter(values)))
        return [work_on(work, partition, rows[partition]) for partition in range(work.partitions)]

    def publish(self, work: Work, done: list[Done], words: Mapping[str, list[int]]) -> None:
        commits: Commits = tuple((one.version, one.id) for one in done)
        before = self.snapshot
        if before is None:
            after = first_snapshot("words", work.number, KEY, GROUPS, commits, VARIABLES, TimeMode.NONE)
        else:
            after = before.after(work.number, commits, work.layout, VARIABLES, self.keep, TimeMode.NONE)
        self.published = after.to_json()
        self.counts.update({word: len(values) for word, values in words.items()})

    def batch(self, partitions: int, words: Mapping[str, list[int]]) -> dict[str, int]:
        work = self.work(partitions, 0 if self.snapshot is None else self.snapshot.version)
        done = self.stage(work, words)
        self.publish(work, done, words)
        return outputs(self.files, done)

    def state(self, version: int | None = None) -> dict[str, int]:
        found = [(one.key[0], one.value[0]) for one in self.reader.entries("count", version=version)]
        assert len(found) == len(dict(found)), "a key is there twice"
        return dict(found)


def outputs(files: LocalFiles, done: list[Done]) -> dict[str, int]:
    batches = [batch for one in done for part in one.parts for batch in pa.ipc.open_stream(part)]
    batches += read_output(files, [path for one in done for path in one.files])
    return {row["word"]: row["count"] for batch in batches for row in batch.to_pylist()}


def some(seed: int, words: int = 60) -> dict[str, list[int]]:
    source = random.Random(seed)
    return {f"w{source.randrange(200)}": [source.randrange(5) for _ in range(3)] for _ in range(words)}


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path)


def test_eight_partitions_become_three_and_then_thirteen(query: Query) -> None:
    states = []
    for number, partitions in enumerate((8, 8, 3, 3, 13, 13, 8)):
        words = some(number)
        assert query.batch(partitions, words) == {word: query.counts[word] for word in words}
        assert query.state() == query.counts
        states.append(query.state())
    for version, state in enumerate(states, 1):  # each of them can still be read
        assert query.state(version) == state
    lists = [(one.key, one.value) for one in query.reader.entries("rows")]
    assert len(lists) == sum(query.counts.values())
    times = sum(one.value[0] for one in query.reader.entries("seen"))
    assert times == len(lists)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 32), min_size=2, max_size=4), st.integers(0, 1000))
def test_any_division_goes_on_from_any_other(
    tmp_path_factory: pytest.TempPathFactory, layouts: list[int], seed: int
) -> None:
    query = Query(tmp_path_factory.mktemp("any"))
    for number, partitions in enumerate(layouts):
        query.batch(partitions, some(seed + number, 30))
        assert query.state() == query.counts
        assert query.reader.partitions() == partitions


def test_a_task_that_runs_twice_stages_twice_and_either_can_be_published(query: Query) -> None:
    words = some(1)
    query.batch(4, words)
    work = query.work(4, 1)
    more = some(2)
    first, second = query.stage(work, more), query.stage(work, more)
    assert outputs(query.files, first) == outputs(query.files, second)
    assert not {one.id for one in first} & {one.id for one in second}
    query.publish(work, [first[0], second[1], first[2], second[3]], more)
    assert query.state() == query.counts
    assert query.batch(4, some(3))
    assert query.state() == query.counts


@pytest.mark.parametrize("partitions", [4, 7])
def test_what_was_staged_and_not_published_is_as_if_it_had_never_been(query: Query, partitions: int) -> None:
    """The driver ends between the two, with the same layout as before or with another one."""
    query.batch(4, some(1))
    for number in range(3):
        query.stage(query.work(partitions, 1), some(10 + number))
        assert query.state() == query.counts
    query.batch(partitions, some(2))
    assert query.state() == query.counts


def test_a_processor_that_raises_leaves_the_store_as_it_was(query: Query) -> None:
    query.batch(2, {"a": [1]})

    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("no such row")

    with pytest.raises(KeyError):
        query.stage(query.work(2, 1), {"a": broken()})  # type: ignore[dict-item]
    assert query.batch(2, {"a": [1]}) == {"a": 2}


def test_a_process_that_has_nothing_loaded_comes_to_the_same(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        monkeypatch.setattr("milepost.state.processors.task.STORES", type(STORES)())
        words = some(number)
        assert query.batch(3, words) == {word: query.counts[word] for word in words}


def test_stores_that_take_more_than_the_bound_are_closed(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = type(STORES)()
    monkeypatch.setattr("milepost.state.processors.task.STORES", stores)
    query.memory = 1
    for number in range(3):
        query.batch(5, some(number))
        assert len(stores._providers) == 1
    assert query.state() == query.counts


def test_out_of_core(tmp_path: Path) -> None:
    query = Query(tmp_path / "files")
    for number in range(3):
        work = query.work(3, number)
        loading = Loading(query.files, 1 << 23, str(tmp_path / "cache"))
        work = Work(**{**vars(work), "loading": pickle.dumps(loading)})
        words = some(number)
        query.publish(work, query.stage(work, words), words)
    assert query.state() == query.counts


def test_output_that_is_too_large_goes_by_way_of_files(query: Query) -> None:
    words = some(1)
    work = query.work(2, 0, inline=10)
    done = query.stage(work, words)
    assert all(one.files and not one.parts for one in done)
    assert outputs(query.files, done) == {word: len(values) for word, values in words.items()}


def test_one_key_is_read_alone(query: Query) -> None:
    query.batch(4, {"a": [1, 2], "b": [2]})
    query.batch(4, {"a": [2]})
    found = {(one.variable, one.entry, one.value) for one in query.reader.get(["a"])}
    assert found == {
        *{("count", None, (3,))},
        *{("rows", None, (1,)), ("rows", None, (2,))},
        *{("seen", (1,), (1,)), ("seen", (2,), (2,))},
    }
    assert [one.value for one in query.reader.get(["a"], "count", version=1)] == [(2,)]
    assert query.reader.get(["nobody"]) == []
    with pytest.raises(InvalidUse, match="no variable 'none'"):
        query.reader.get(["a"], "none")


def test_a_snapshot_that_never_was_is_not_the_newest(query: Query) -> None:
    query.batch(2, {"a": [1]})
    for version in (0, -1, 2):
        for read in (
            lambda version: list(query.reader.entries("count", version=version)),
            lambda version: query.reader.get(("a",), version=version),
            lambda version: query.reader.partitions(version),
            lambda version: list(query.reader.changes(1, version)),
        ):
            with pytest.raises(VersionNotFound):
                read(version)


def test_what_snapshots_changed(query: Query) -> None:
    for words in ({"a": [1], "b": [1]}, {"a": [2]}, {"c": [3]}):
        query.batch(2, words)
    found = sorted((one.version, one.kind, one.key, one.values) for one in query.reader.changes(2, variable="count"))
    assert found == [(2, "put", ("a",), ((2,),)), (3, "put", ("c",), ((1,),))]
    appended = list(query.reader.changes(2, 2, variable="rows"))
    assert [(one.kind, one.values) for one in appended] == [("append", ((2,),))]
    query.batch(3, {"d": [1]})
    query.batch(3, {"d": [1]})
    assert [one.version for one in query.reader.changes(5, variable="count")] == [5]
    for start, end in ((3, 5), (4, 5)):
        with pytest.raises(InvalidUse, match="the same layout"):
            list(query.reader.changes(start, end))


def test_a_division_none_of_whose_snapshots_is_kept_is_retired(query: Query) -> None:
    query.keep = 3
    query.batch(2, {"a": [1]})
    for _ in range(3):
        query.batch(3, {"a": [1]})
    assert query.snapshot is not None
    assert query.snapshot.retired == ((1, 2),)
    with pytest.raises(VersionNotFound):
        query.state(1)
    assert query.state(2) == {"a": 2}
    query.batch(3, {"a": [1]})
    assert not query.snapshot.retired


def test_divisions_that_were_never_published_are_known_by_the_next_one(query: Query) -> None:
    query.batch(4, {"a": [1]})
    assert query.snapshot is not None
    assert query.snapshot.unpublished(query.files) == []
    query.stage(query.work(7, 1), {"a": [2]})
    query.stage(query.work(4, 1), {"a": [2]})
    query.batch(3, {"a": [1]})
    assert query.snapshot.unpublished(query.files) == [(2, 7)]
    query.batch(3, {"a": [1]})
    assert query.snapshot.unpublished(query.files) == []  # they went by now


def test_stores_of_an_older_division_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = type(STORES)()
    monkeypatch.setattr("milepost.state.processors.task.STORES", stores)
    query = Query(tmp_path / "files")
    loading = pickle.dumps(Loading(query.files, 1 << 23, str(tmp_path / "cache")))
    for number, partitions in enumerate((3, 3, 2)):
        work = replace(query.work(partitions, number), loading=loading)
        query.publish(work, query.stage(work, some(number)), some(number))
        opened = {(store.name, store.partition) for _, store in stores._providers}
        assert opened == {(f"words.{1 if partitions == 3 else 2}x{partitions}", one) for one in range(partitions)}
    assert query.state() == query.counts


def test_a_worker_that_ends_with_its_task_tidies_up_before(query: Query) -> None:
    for number in range(10):
        work = replace(query.work(1, number), workers_stay=False)
        query.publish(work, query.stage(work, {"a": [1]}), {"a": [1]})
    assert [path.suffix for path in query.directory.rglob("10_*")].count(".snapshot") == 1
    assert query.batch(1, {"a": [1]}) == {"a": 11}


def test_a_snapshot_proves_itself(query: Query) -> None:
    query.batch(2, {"a": [1]})
    assert query.published is not None
    for name, value in (("version", 7), ("eras", []), ("digest", "0"), ("format", 9)):
        with pytest.raises(StateDamaged):
            Snapshot.from_json("words", {**query.published, name: value})
    with pytest.raises(StateDamaged):
        Snapshot.from_json("other", query.published)
    with pytest.raises(StateDamaged):
        snapshots_of(b"no JSON")
    assert snapshots_of(b'{"schema": 2}') == {}


def test_a_snapshot_that_no_driver_wrote_is_damaged_although_its_digest_is_right(query: Query) -> None:
    """The digest is no signature: whoever edits the record may make a new one."""
    for partitions in (2, 3):
        query.batch(partitions, {"a": [1]})
    good = query.snapshot
    assert good is not None
    assert Snapshot.from_json("words", good.to_json()) == good
    older, newer = good.layouts
    for layouts in (
        (),
        (newer, older),
        (older, replace(newer, after=0)),
        (replace(older, after=-1), newer),
        (older, replace(newer, after=good.version)),
        (older, replace(newer, commits=())),
        (older, replace(newer, commits=newer.commits * 11)),
        (older, replace(newer, commits=((-1, "0" * 32),))),
    ):
        with pytest.raises(StateDamaged, match="the snapshot of the state 'words'"):
            Snapshot.from_json("words", replace(good, layouts=layouts).to_json())
    gone = replace(good, retired=((newer.number, 3),))  # by which the driver would remove what it goes on from
    endless = replace(good, version=float("inf"))  # type: ignore[arg-type]
    for one in (gone, endless):
        with pytest.raises(StateDamaged):
            Snapshot.from_json("words", one.to_json())
