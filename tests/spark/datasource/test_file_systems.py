"""Files of published output are read without Spark's JVM, from a directory and from S3."""

from __future__ import annotations

import secrets
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructType

from milepost.errors import BatchesGone, RecordUnreadable, UnsafeQuery
from milepost.spark.datasource.file_systems import files_of
from milepost.spark.datasource.parquet import FilesPartition, PublishedFile, partitions_of, rows_of
from milepost.spark.output.manifest import PublishedBatch
from testbed.seaweedfs import ALL_RIGHTS, REGION
from tests.contracts.places import Services
from tests.support.servers.s3 import BUCKET, alone, shared

SCHEMA = StructType().add("k", LongType()).add("batch", LongType())


def written(path: Path) -> int:
    """A file of two rows; return its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"k": [1, 2]}), path)
    return path.stat().st_size


def read(uri: str, size: int) -> list[dict[str, int]]:
    found = rows_of(FilesPartition((PublishedFile(7, uri, size),)), SCHEMA, 30.0)
    return [row for rows in found for row in rows.to_pylist()]


ROWS = [{"k": 1, "batch": 7}, {"k": 2, "batch": 7}]


@pytest.mark.parametrize("name", ["part 0", "a=b/%20#?[x]*ö"])
def test_a_file_of_a_directory_is_read_by_its_unescaped_name(tmp_path: Path, name: str) -> None:
    size = written(tmp_path / name)
    assert read(f"file:{tmp_path}/{name}", size) == ROWS


def test_a_file_of_s3_is_read_with_the_credentials_of_the_environment(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, key = shared(services), f"tests/{secrets.token_hex(8)}/a b=%20#?[x]*ö"
    size = written(tmp_path / "file")
    client = server.client()
    try:
        client.put_object(Bucket=BUCKET, Key=key, Body=(tmp_path / "file").read_bytes())
    finally:
        client.close()
    alone(monkeypatch, tmp_path)
    for variable, value in ALL_RIGHTS.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint_url)
    monkeypatch.setenv("AWS_REGION", REGION)
    assert read(f"s3a://{BUCKET}/{key}", size) == ROWS
    assert files_of("s3a://", 30.0).read(f"s3a://{BUCKET}/{key}-none") is None
    with pytest.raises(BatchesGone):
        read(f"s3a://{BUCKET}/{key}-none", size)


def test_a_file_that_another_hand_has_changed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "part-0"
    size, uri = written(path), f"file:{path}"
    content = path.read_bytes()
    with pytest.raises(RecordUnreadable, match=f"has {size} bytes, and had {size + 1}"):
        read(uri, size + 1)
    for damaged in (b"x" * size, content[:8] + b"\xff" * 40 + content[48:]):
        path.write_bytes(damaged)
        with pytest.raises(RecordUnreadable, match="part-0 of batch 7 cannot be read"):
            read(uri, size)
    path.unlink()
    with pytest.raises(BatchesGone, match="batch 7 is gone") as error:
        read(uri, size)
    assert error.value.batches == (7,)


def test_a_file_system_that_arrow_does_not_have_is_refused_with_the_way_out() -> None:
    with pytest.raises(UnsafeQuery, match=r"use milepost\.spark\.read_published"):
        read("webhdfs://milepost/jobs/flights/out/part-0", 1)


def test_small_files_share_a_task_and_large_ones_have_their_own() -> None:
    sizes = [1, 2, 100 * 1024 * 1024, 3, *[1] * 20]
    files = tuple((f"part-{number}", size) for number, size in enumerate(sizes))
    made = partitions_of("file:/out", [PublishedBatch(0, "batch=0/e1-ab", files)], SCHEMA)
    parts = [part.files for part in made if isinstance(part, FilesPartition)]
    assert [len(part) for part in parts] == [2, 1, 15, 6]
    assert [file.size for part in parts for file in part] == sizes


def test_the_column_batch_has_one_type() -> None:
    with pytest.raises(UnsafeQuery, match="the column batch is the number of the batch, a bigint"):
        partitions_of("file:/out", [], StructType().add("batch", "string"))
