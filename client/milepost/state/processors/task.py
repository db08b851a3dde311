"""Processes one partition of a batch: splits its rows into keys, loads its state store, runs the processor, commits,
and reports the result.

If a task fails or runs twice, the partition is processed again from the same commit. Each attempt makes its own commit,
and a commit that is never published is never read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from milepost.state.errors import CommitUnknown, InvalidUse
from milepost.state.key_groups import KeyGroups, range_of_groups
from milepost.state.processors.cache import STORES
from milepost.state.processors.outputs import Outputs, read_output, store_output
from milepost.state.processors.running import Batch, Rows, drop_variables, run_processor
from milepost.state.processors.snapshot import Layout, store_of
from milepost.state.processors.types import RowMaker, tuples
from milepost.state.processors.variables import StateVariable
from milepost.state.store.contract.stores import StateStore
from milepost.state.store.provider import FileStateStoreProvider

KEY = "__milepost_key"
PARTITION = "__milepost_partition"
RESERVED = (KEY, PARTITION)


def frames_by_key(frames: Iterable[Any]) -> Iterator[tuple[int, Iterator[tuple[bytes, Rows]]]]:
    """Split pandas frames that are sorted by `PARTITION` and `KEY` into partitions, and each partition into keys with
    their frames. The first row of each partition is a marker without a key, so that a partition without other rows
    appears too.
    """

    import pandas

    def slices() -> Iterator[tuple[int, bytes | None, Any]]:
        for frame in frames:
            keys = frame[KEY].tolist()
            partitions = frame[PARTITION].tolist()
            data = frame.drop(columns=list(RESERVED))
            start, last = 0, len(keys)
            while start < last:
                end, key, partition = start + 1, keys[start], partitions[start]
                while end < last and keys[end] == key and partitions[end] == partition:
                    end += 1
                part = data.iloc[start:end]
                part.index = pandas.RangeIndex(end - start)  # a plain range would take pandas twice as long
                yield int(partition), key, part
                start = end

    return _by_partition(slices())


def rows_by_key(batches: Iterable[pa.RecordBatch], row: Any) -> Iterator[tuple[int, Iterator[tuple[bytes, Rows]]]]:
    """Split record batches that are sorted by `PARTITION` and `KEY` into partitions, and each partition into keys with
    their rows. The first row of each partition is a marker without a key. ``row`` takes names of fields, and returns a
    function that makes a row.
    """

    def each() -> Iterator[tuple[int, bytes | None, Any]]:
        for batch in batches:
            keys, partitions = batch.column(KEY).to_pylist(), batch.column(PARTITION).to_pylist()
            names = [name for name in batch.schema.names if name not in RESERVED]
            make = row(*names)
            columns = [batch.column(name).to_pylist() for name in names]
            for key, partition, *values in zip(keys, partitions, *columns, strict=True):
                yield int(partition), key, make(*values)

    return _by_partition(each())


def _by_partition(parts: Iterator[tuple[int, bytes | None, Any]]) -> Iterator[tuple[int, Iterator[tuple[bytes, Rows]]]]:
    for partition, group in itertools.groupby(parts, key=lambda part: part[0]):
        first = next(group)
        if first[1] is not None:
            raise InvalidUse(f"the rows of partition {partition} came without its beginning: they were divided again")
        yield partition, _by_key(group)  # noqa: B031  (the caller reads all keys before the next partition)


def _by_key(group: Iterator[tuple[int, bytes | None, Any]]) -> Iterator[tuple[bytes, Rows]]:
    for key, same in itertools.groupby(group, key=lambda part: part[1]):
        assert key is not None
        yield bytes(key), (part[2] for part in same)


_COPY_BYTES = 64 * 1024 * 1024
_COMMITS = 3
_SNAPSHOT_EVERY = 10
_DONE = pa.schema([("partition", pa.int32()), ("info", pa.string()), ("parts", pa.list_(pa.binary()))])


@dataclass(frozen=True)
class Work:
    """The work of a task, which is the same for all partitions of the batch ``number``.

    ``loading`` is a pickled `milepost.state.processors.cache.Loading`. ``begin`` has the commit from which each
    partition continues. If ``begin`` is None, each partition begins a new state store, into which the keys of the
    ``older`` division into partitions are copied, if there is one. ``dropped`` has variables to remove first.
    ``schema`` and ``timezone`` are those of the output. ``workers_stay`` says that a worker process outlives its task,
    so that maintenance can run during the next task.
    """

    name: str
    number: int
    loading: bytes
    partitions: int
    layout: int
    batch: Batch
    processor: Any
    frames: bool
    schema: pa.Schema
    timezone: str
    inline_bytes: int
    begin: tuple[tuple[int, str], ...] | None
    older: Layout | None = None
    dropped: tuple[StateVariable, ...] = ()
    initial: bool = False
    workers_stay: bool = True
    rows: RowMaker = field(default=tuples)


@dataclass(frozen=True)
class Done:
    """The result of a task: the commit of its partition, and its output, in ``parts`` or in ``files`` of the
    storage.
    """

    partition: int
    version: int
    id: str
    parts: tuple[bytes, ...]
    files: tuple[str, ...]
    metrics: dict[str, int]

    def info(self) -> str:
        """Return everything except the output in ``parts`` as JSON."""
        document = {"commit": [self.version, self.id], "files": self.files, "metrics": self.metrics}
        return json.dumps(document, separators=(",", ":"))

    def columns(self) -> dict[str, list[Any]]:
        """Return the result as the single row that Spark collects from the task."""
        return {"partition": [self.partition], "info": [self.info()], "parts": [list(self.parts)]}


def work_on(work: Work, partition: int, rows: Iterable[tuple[bytes, Rows]]) -> Done:
    """Process the rows of a partition, in which the rows of a key are consecutive, and return the result once the
    commit of the partition's state store is stored. Raises `StateError` and the exceptions of the processor; then
    nothing is published.
    """
    files = STORES.files(work.loading)
    store_id = store_of(work.name, work.layout, work.partitions, partition)
    provider = STORES.provider(work.loading, store_id)
    if work.begin is not None:
        store = provider.get_store(*work.begin[partition])
    else:
        store = provider.get_store(0)
        if work.older is not None:
            store = _taken_over(work, provider, store, partition)
    try:
        drop_variables(store, work.dropped)
        outputs = Outputs(work.schema, work.timezone, _COPY_BYTES // 4)
        add = outputs.add_frame if work.frames else outputs.add_row
        parts: list[bytes] = []
        names: list[str] = []

        def keep(part: bytes) -> None:
            if names or sum(map(len, parts)) + len(part) > work.inline_bytes:
                names.append(store_output(files, work.name, work.number, partition, part))
            else:
                parts.append(part)

        groups = work.batch.groups.groups_of(partition, work.partitions)
        given: dict[str, Any] = {"initial": rows, "rows": ()} if work.initial else {"rows": rows}
        for outcome in run_processor(work.processor, work.batch, store, groups, row_maker=work.rows, **given):
            for part in add(outcome.output):
                keep(part)
        for part in outputs.end():
            keep(part)
        commit(store)
    except BaseException:
        store.abort()
        raise
    info = store.checkpoint_info
    STORES.used(work.loading, store_id, store.metrics.memory_used_bytes)
    STORES.close_other_layouts(work.loading, store_id)
    if (info.version + partition) % _SNAPSHOT_EVERY == 0:
        STORES.maintain(provider, in_background=work.workers_stay)
    metrics = {**store.metrics.custom, "keys": store.metrics.num_keys, "rows": outputs.rows}
    return Done(partition, info.version, info.id, tuple(parts), tuple(names), metrics)


def commit(store: StateStore) -> None:
    """Commit a state store. While the outcome is unknown, repeat the commit, which writes the same file; after three
    attempts, raise `CommitUnknown`.
    """
    for attempt in range(_COMMITS):
        try:
            store.commit()
        except CommitUnknown:
            if attempt + 1 == _COMMITS:
                raise
        else:
            return


def _taken_over(work: Work, provider: FileStateStoreProvider, store: StateStore, partition: int) -> StateStore:
    """Copy the keys of the partition's key groups from the state stores of ``work.older``, the older division into
    partitions, into the partition's new ``store``. If the keys are too many for memory, commit on the way and open the
    store again; so return the store to use.
    """
    assert work.older is not None
    groups: KeyGroups = work.batch.groups
    before = len(work.older.commits)
    size = 0
    try:
        for one, taken in groups.moved(partition, work.partitions, before).items():
            theirs = STORES.provider(work.loading, work.older.store(work.name, one))
            version, id = work.older.commits[one]
            source = theirs.get_range_reader(version, id)
            start, end = range_of_groups(taken)
            for family in sorted(source.all_column_family_names()):
                for key, values in source.entries(start, end, family):
                    if family.startswith("list:"):
                        store.create_column_family_if_absent(family, multiple_values_per_key=True)
                        store.put_list(key, values, family)
                    else:
                        store.create_column_family_if_absent(family)
                        store.put(key, values[0], family)
                    size += len(key) + sum(map(len, values))
                    if size > _COPY_BYTES:
                        commit(store)
                        store = provider.get_store(store.checkpoint_info.version, store.checkpoint_info.id)
                        size = 0
    except BaseException:
        store.abort()
        raise
    return store


def frames_task(work: Work) -> Any:
    """Return the function for Spark's ``mapInPandas`` that processes the partitions of pandas frames as ``work``
    says.
    """

    def run(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas

        for partition, rows in frames_by_key(frames):
            yield pandas.DataFrame(work_on(work, partition, rows).columns())

    return run


def rows_task(work: Work, row: Any) -> Any:
    """Return the function for Spark's ``mapInArrow`` that processes the partitions of rows as ``work`` says. ``row``
    takes names of fields, and returns a function that makes a row.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition, rows in rows_by_key(batches, row):
            yield pa.RecordBatch.from_pydict(work_on(work, partition, rows).columns(), schema=_DONE)

    return run


def output_task(loading: bytes) -> Any:
    """Return the function for Spark's ``mapInArrow`` that reads stored outputs by the paths of their files. ``loading``
    is a pickled `milepost.state.processors.cache.Loading`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from read_output(STORES.files(loading), batch.column(0).to_pylist())

    return run
