"""Reads the published managed state of a job: `state_reader` without Spark, `read_state` as a frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from milepost.job_record import JOB, decode
from milepost.state.errors import InvalidUse
from milepost.state.processors.reading import StateReader
from milepost.state.processors.snapshot import snapshots_of
from milepost.state.processors.types import JsonType
from milepost.state.store.files.contract import FilesWithin, StateFiles
from milepost.store import StateHandleStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def state_reader(store: StateHandleStore, files: StateFiles, name: str = "state") -> StateReader:
    """Return a reader of the job's state as it was last published. It needs no Spark.

    ``store`` is the job's store of the service (`milepost.Client.store`), ``files`` the storage of the state, and
    ``name`` the state's. For a state in the job's tree, ``files`` is the job's `milepost.state.store.TreeFiles`. Raises
    `NotExist` if there is no such job, `RecordUnreadable`, `InvalidUse` if it has no such state, and `StateDamaged`.
    """
    record = store.read(JOB)
    snapshots = snapshots_of(record)
    if name not in snapshots:
        there = ", ".join(sorted(snapshots)) or "none"
        raise InvalidUse(f"the job has no state {name!r}, but {there}")
    return StateReader(FilesWithin(files, decode(record).states), snapshots[name])


def read_state(spark: SparkSession, reader: StateReader, variable: str, *, version: int | None = None) -> DataFrame:
    """Read a state variable as a frame, one row for each value, at a kept snapshot: by default the newest.

    The columns are the structs ``key`` and ``value``; a map also has the struct ``entry``; and a state with a ttl has
    ``expires``. Each task reads one partition. Raises `InvalidUse`, `VersionNotFound`.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    one = reader.variable(variable)
    kinds: dict[str, JsonType] = {"key": _struct(reader.key)}
    if one.key is not None:
        kinds["entry"] = one.key
    kinds["value"] = one.schemas[-1]
    if one.ttl is not None:
        kinds["expires"] = "timestamp"
    schema = StructType.fromJson(_struct(kinds.items()))
    arrow: Any = to_arrow_schema(schema, timezone="UTC")
    chosen = reader.version if version is None else version
    count = reader.partitions(chosen)

    def read(batches: Any) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for partition in batch.column(0).to_pylist():
                rows: list[dict[str, Any]] = []
                for found in reader.entries(variable, version=chosen, partitions=[partition]):
                    row = {
                        "key": found.key,
                        "entry": found.entry,
                        "value": found.value,
                        "expires": None if found.expires is None else datetime.fromtimestamp(found.expires / 1000),
                    }
                    rows.append({name: _plain(kind, row[name]) for name, kind in kinds.items()})
                    if len(rows) == 10_000:
                        yield pa.RecordBatch.from_pylist(rows, schema=arrow)
                        rows = []
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=arrow)

    partitions = spark.range(0, count, 1, count)
    return partitions.mapInArrow(read, schema)


def _struct(columns: Any) -> JsonType:
    return {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns],
    }


def _plain(kind: JsonType, value: Any) -> Any:
    """Convert a value for Arrow: rows become dicts, and times without a time zone, which are local times, get the local
    time zone.
    """
    if value is None:
        return None
    if isinstance(kind, dict):
        if kind["type"] == "struct":
            fields: Sequence[Any] = kind["fields"]
            return {one["name"]: _plain(one["type"], part) for one, part in zip(fields, value, strict=True)}
        if kind["type"] == "array":
            return [_plain(kind["elementType"], part) for part in value]
        return [(_plain(kind["keyType"], key), _plain(kind["valueType"], part)) for key, part in value.items()]
    return value.astimezone() if kind == "timestamp" else value
