"""Processes a batch with managed state: `stateful`."""

from __future__ import annotations

import json
import logging
import pickle
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from milepost.errors import UnsafeQuery
from milepost.spark.managed.published import ManagedState
from milepost.spark.managed.rescaling import divided, grouping_key, parsed_output, without_late
from milepost.state.errors import StateError
from milepost.state.key_groups import DEFAULT_KEY_GROUPS, KeyGroups
from milepost.state.processors.cache import Loading
from milepost.state.processors.handle import declared
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.outputs import output_directory
from milepost.state.processors.running import Batch
from milepost.state.processors.snapshot import Commits, Snapshot, first_snapshot, store_of
from milepost.state.processors.task import Work, frames_task, output_task, rows_task
from milepost.state.processors.timers import BatchTimes, TimeMode
from milepost.state.processors.variables import StateVariable, evolved
from milepost.state.store.files.contract import FilesWithin, StateFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    from milepost.spark.job import Job

_INLINE_BYTES = 16 * 1024 * 1024
"""The most bytes of output that all tasks together return to the driver; further output goes through files."""

_log = logging.getLogger(__name__)


def stateful(
    job: Job,
    frame: DataFrame,
    *,
    key: str | Sequence[str],
    processor: StatefulProcessor,
    output_type: StructType | str,
    files: StateFiles | None = None,
    time_mode: str = "None",
    initial_state: DataFrame | None = None,
    name: str = "state",
    in_pandas: bool = True,
    partitions: int | None = None,
    key_groups: int = DEFAULT_KEY_GROUPS,
    keep: int = 100,
    memory_bytes: int = 256 * 1024 * 1024,
    directory: str | None = None,
) -> DataFrame:
    """Process the frame of a batch with state, and return the processor's output.

    The batch starts from the state of the last published batch, and its new state is published with the batch, in the
    same compare-and-set. So a batch that runs again finds the same state. Call this in the function for
    `Job.exactlyOnce`, or in the ``transform`` of `Job.files`.

    The processor is one for PySpark's ``transformWithStateInPandas``, or with ``in_pandas=False`` for
    ``transformWithState``. ``output_type``, ``time_mode`` and ``initial_state`` (a frame with the columns of ``key``,
    used before the first batch) are its ``outputStructType``, ``timeMode`` and ``initialState``. Times and watermark
    are those that Spark has logged for the batch.

    ``files`` is the storage of the state, which drivers and executors must reach, such as `LocalFiles` on a shared
    directory. Each job has its own directory there. The default is the job's tree in the service, fenced by the
    driver's epoch; executors reach the service by the arguments of `lead`, or by their environment.

    ``name`` distinguishes the states of one job. ``partitions`` is the number of tasks and of stores, and may change
    with any batch: by default that of the batch before, at first the number of Spark's cores. ``key_groups`` is the
    largest possible number of partitions, and never changes for a state. The last ``keep`` snapshots can be read.

    A worker process keeps up to ``memory_bytes`` of stores between batches; with ``directory``, a local directory of
    the executors, it keeps them in RocksDB with this much memory.

    Raises `UnsafeQuery` outside of a batch and for invalid arguments, `NoSafeCheckpoint` if the files of the state are
    older than the job record, `StateError` if the state cannot be read, and Spark's exception if a task fails.
    """
    from pyspark import cloudpickle

    spark = frame.sparkSession
    state: ManagedState = job.state
    batch_number = state.batch
    state.check_unstaged(name)
    document = state.published(name)
    before = None if document is None else Snapshot.from_json(name, document)
    columns = [key] if isinstance(key, str) else list(key)
    grouping = grouping_key(frame, columns)
    groups = KeyGroups(key_groups)
    if before is not None:
        _check_same(before, grouping, groups)
    count = partitions
    if count is None:
        count = before.partitions if before else min(spark.sparkContext.defaultParallelism, key_groups)
    if not 1 <= count <= groups.count:
        raise UnsafeQuery(f"{groups.count} key groups are for 1 to {groups.count} partitions, not {count}")
    store_of(name, 1, count, 0)  # raises InvalidUse if no state can have this name
    mode = TimeMode.of(time_mode)
    variables, dropped = _variables(cloudpickle, processor, mode, before)
    output = parsed_output(output_type)
    logged = state.times()
    same = before is not None and before.partitions == count
    layout = 1 if before is None else before.layout.number + (0 if same else 1)
    files = FilesWithin(files or state.tree_files(), state.directory)
    loading = Loading(files, memory_bytes, directory, keep)
    work = Work(
        name=name,
        number=batch_number,
        loading=_pickled(loading),
        partitions=count,
        layout=layout,
        batch=Batch(grouping, variables, groups, mode, BatchTimes(logged.began, logged.watermark)),
        processor=processor,
        frames=in_pandas,
        schema=_arrow_schema(output),
        timezone=str(spark.conf.get("spark.sql.session.timeZone")),
        inline_bytes=_INLINE_BYTES // count,
        begin=before.layout.commits if before is not None and same else None,
        older=before.layout if before is not None and not same else None,
        dropped=tuple(dropped),
        workers_stay=str(spark.sparkContext.getConf().get("spark.python.worker.reuse", "true")).lower() == "true",
        rows=_row_maker,
    )
    if before is not None:
        state.check_found(before, files)
    _remove_outputs(files, name, batch_number)
    if before is not None:
        _remove_retired(files, before)
    if before is None and initial_state is not None:
        commits, _ = _run(initial_state, grouping_key(initial_state, columns), replace(work, initial=True))
        work = replace(work, begin=commits)
    commits, outputs = _run(without_late(frame, logged.late), grouping, work)
    if before is None:
        snapshot = first_snapshot(name, batch_number, grouping, groups, commits, variables, mode)
    else:
        snapshot = before.after(batch_number, commits, layout, variables, keep, mode)
    state.stage(name, snapshot.to_json())
    return _frame_of(spark, outputs, output, work.loading)


def _pickled(loading: Loading) -> bytes:
    try:
        return pickle.dumps(loading)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UnsafeQuery(
            f"the place of the state cannot be sent to executors: {error}; give lead a token_file or a function of a "
            "module for the token, and files for certificates, or give stateful other files"
        ) from error


def _run(frame: DataFrame, grouping: GroupingKey, work: Work) -> tuple[Commits, tuple[list[bytes], list[str]]]:
    """Run the tasks on all partitions. Return one commit for each partition, and the output: the parts that the tasks
    returned themselves, and the paths of the files with the other parts. Only the attempts that Spark accepted count.
    """
    from pyspark.sql import Row

    parts = divided(frame, grouping, work.batch.groups.count, work.partitions)
    schema = "partition int, info string, parts array<binary>"
    if work.frames:
        results = parts.mapInPandas(frames_task(work), schema).collect()
    else:
        results = parts.mapInArrow(rows_task(work, Row), schema).collect()
    found: dict[int, list[Any]] = defaultdict(list)
    for row in results:
        found[row.partition].append(row)
    if sorted(found) != list(range(work.partitions)) or any(len(rows) > 1 for rows in found.values()):
        raise UnsafeQuery(
            f"of {work.partitions} partitions of the state {work.name!r}, Spark ran these (number, times), and nothing "
            f"is published: {sorted((partition, len(rows)) for partition, rows in found.items())}"
        )
    rows = [found[partition][0] for partition in range(work.partitions)]
    infos = [json.loads(row.info) for row in rows]
    commits = tuple((int(version), str(id)) for version, id in (info["commit"] for info in infos))
    inline = [bytes(part) for row in rows for part in row.parts]
    return commits, (inline, [path for info in infos for path in info["files"]])


def _frame_of(
    spark: SparkSession, outputs: tuple[list[bytes], list[str]], output: StructType, loading: bytes
) -> DataFrame:
    """Make a frame of the tasks' output, which ``outputs`` contains or names. Evaluating the frame does not process the
    state again, so each evaluation returns the same rows.
    """
    import pyarrow as pa

    inline, paths = outputs
    batches = [batch for part in inline for batch in pa.ipc.open_stream(part)]
    frame = (
        spark.createDataFrame(pa.Table.from_batches(batches), schema=output)
        if batches
        else spark.createDataFrame([], output)
    )
    if not paths:
        return frame
    stored = spark.createDataFrame([(path,) for path in paths], "path string").repartition(len(paths))
    return frame.union(stored.mapInArrow(output_task(loading), output))


def _variables(
    cloudpickle: Any, processor: Any, mode: TimeMode, before: Snapshot | None
) -> tuple[dict[str, StateVariable], list[StateVariable]]:
    """Return the state variables of the batch by name, and the variables that the batch removes. To find them, this
    calls the processor's ``init`` on a copy, as Spark does, and closes the copy again.
    """
    copy = cloudpickle.loads(cloudpickle.dumps(processor))
    asked, deleted = declared(copy.init, mode, _parsed)
    copy.close()
    there = dict(before.variables) if before is not None else {}
    dropped = [there.pop(name) for name in sorted(deleted) if name in there and name not in asked]
    return evolved(there, asked), dropped


def _parsed(text: str) -> Any:
    from pyspark.sql.types import StructType

    return json.loads(StructType.fromDDL(text).json())


def _row_maker(names: Sequence[str]) -> Any:
    from pyspark.sql import Row

    make = Row(*names)
    return lambda values: make(*values)


def _arrow_schema(output: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(output, timezone="UTC")


def _check_same(before: Snapshot, grouping: GroupingKey, groups: KeyGroups) -> None:
    if [kind for _, kind in before.key] != [kind for _, kind in grouping.columns]:
        raise UnsafeQuery(
            f"the state {before.name!r} has keys of {_shown(before.key)}, and cannot have keys of "
            f"{_shown(grouping.columns)}: choose another name for the state"
        )
    if before.groups != groups:
        raise UnsafeQuery(
            f"the state {before.name!r} has {before.groups.count} key groups for ever, not {groups.count}"
        )


def _shown(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)


def _remove_outputs(files: StateFiles, name: str, batch: int) -> None:
    """Remove the tasks' output files of earlier batches, which are no longer needed because those batches are
    published. A failure is only logged.
    """
    try:
        for info in files.list(output_directory(name)):
            number = info.name.rpartition("/")[2].partition("_")[0]
            if number.isdigit() and int(number) < batch:
                files.delete(info.name)
    except StateError as error:
        _log.warning("outputs that are published already could not be removed, they stay for now: %s", error)


def _remove_retired(files: StateFiles, before: Snapshot) -> None:
    """Remove the state stores of layouts (divisions of the state into partitions) of which no snapshot is kept, and
    those of layouts that were never published. A failure is only logged.
    """
    try:
        for number, partitions in (*before.retired, *before.unpublished(files)):
            for partition in range(partitions):
                for info in files.list(store_of(before.name, number, partitions, partition).directory):
                    files.delete(info.name)
    except StateError as error:
        _log.warning("stores of a former layout of %s could not be removed, they stay: %s", before.name, error)
