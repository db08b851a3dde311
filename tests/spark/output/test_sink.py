"""The sink of files without Spark: a frame that writes what it is told to, on the disk of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from milepost.errors import UnsafeQuery
from milepost.spark import BatchContext
from milepost.spark.output.sink import FilesSink

JOB = "0123456789abcdef" * 2


class Frame:
    """As much of a frame as the sink uses; its write leaves these files, as Spark names them."""

    columns = ("k",)

    def __init__(self, *names: str, master: str = "local[2]", blind: int = 0) -> None:
        self._names = names
        self.written: list[str] = []
        self.sparkSession = Session(master, blind)

    @property
    def write(self) -> Frame:
        return self

    @property
    def schema(self) -> Frame:
        return self

    def json(self) -> str:
        return "{}"

    def parquet(self, directory: str) -> None:
        self.written.append(directory)
        path = Path(directory.removeprefix("file:"))
        path.mkdir(parents=True)
        for name in self._names:
            (path / name).write_bytes(b"rows")


class Session:
    """As much of Spark as looks after files in common; so many of its ``blind`` tasks see none of them."""

    defaultParallelism = 3

    def __init__(self, master: str, blind: int) -> None:
        self.master = master
        self.looked: list[str] = []
        self._blind = blind

    @property
    def sparkContext(self) -> Session:
        return self

    @property
    def read(self) -> Session:
        return self

    def option(self, _key: str, _value: str) -> Session:
        return self

    def schema(self, _columns: str) -> Session:
        return self

    def text(self, directory: str) -> Session:
        self.looked.append(directory)
        return self

    def count(self) -> int:
        found = list(Path(self.looked[-1].removeprefix("file:")).iterdir())
        assert [path.read_text() for path in found] == ["seen\n"] * self.defaultParallelism
        return len(found) - self._blind


class Qualifying:
    """What the sink asks of Hadoop for a directory of this machine."""

    def qualified(self, path: str) -> str:
        return f"file:{path}"


def sink(output: Path) -> FilesSink:
    hadoop: Any = Qualifying()
    return FilesSink(hadoop, str(output))


def publish(output: Path, names: Sequence[str], batch: int = 0, manifest: Any = None) -> tuple[Any, Frame]:
    """What is published of a batch whose write leaves these files, and the frame that wrote them."""
    frame: Any = Frame(*names)
    return sink(output).publish(frame, BatchContext(batch, 3, 1, JOB, manifest)), frame


def test_what_was_written_is_named(tmp_path: Path) -> None:
    manifest, frame = publish(tmp_path, ["_SUCCESS", "part-00000-ab-c000.snappy.parquet"])
    assert manifest["page"]["last"] == 0
    assert len(frame.written) == 1


@pytest.mark.parametrize("names", [["_SUCCESS"], ["_SUCCESS", "part-00001-ab-c000.snappy.parquet"]])
def test_files_that_executors_wrote_to_their_own_disks_are_missed(tmp_path: Path, names: list[str]) -> None:
    """All of them, or those of all executors but the one on the driver's machine. Spark tells of a success."""
    with pytest.raises(UnsafeQuery, match="executors have disks of their own"):
        publish(tmp_path, names)
    assert not (tmp_path / "_milepost").exists()


@pytest.mark.parametrize(
    "names",
    [
        ["part-00000-ab-c000.snappy.parquet"],
        ["part-00000-ab-c000.snappy.parquet", "part-00007-ab-c000.snappy.parquet"],
        ["part-00000-ab-c001.snappy.parquet", "part-00000-ab-c000.snappy.parquet"],
        ["chosen-by-another-committer.parquet"],
    ],
)
def test_partitions_without_rows_have_no_file_but_for_the_first(tmp_path: Path, names: list[str]) -> None:
    publish(tmp_path, names)


FIRST = "part-00000-ab-c000.snappy.parquet"


@pytest.mark.parametrize("blind", [1, 3])
def test_executors_that_do_not_see_the_drivers_files_are_found_before_anything_is_written(
    tmp_path: Path, blind: int
) -> None:
    frame: Any = Frame(FIRST, master="spark://cluster:7077", blind=blind)
    with pytest.raises(UnsafeQuery, match=rf"3 tasks looked .* and {3 - blind} found one: executors have disks"):
        sink(tmp_path).publish(frame, BatchContext(0, 3, 1, JOB))
    assert frame.written == []
    assert list((tmp_path / "batch=0").iterdir()) == []


@pytest.mark.parametrize(
    ("master", "looks"), [("local", 0), ("local[*]", 0), ("local-cluster[2,1,1024]", 1), ("yarn", 1)]
)
def test_a_cluster_is_looked_at_once_by_each_driver(tmp_path: Path, master: str, looks: int) -> None:
    frame: Any = Frame(FIRST, master=master)
    one = sink(tmp_path)
    manifest = one.publish(frame, BatchContext(0, 3, 1, JOB))
    one.publish(frame, BatchContext(1, 3, 1, JOB, manifest))
    assert len(frame.sparkSession.looked) == looks
    assert len(list((tmp_path / "batch=0").iterdir())) == 1


@pytest.mark.parametrize("manifest", [None, {"rows": 3}, {"kind": "files", "paths": ["a"]}])
def test_a_job_that_published_in_another_way_is_refused_before_anything_is_written(
    tmp_path: Path, manifest: Any
) -> None:
    """Its function may have returned nothing, too; its batches would not be among those that readers find."""
    frame: Any = Frame("part-00000-ab-c000.snappy.parquet")
    with pytest.raises(UnsafeQuery, match=r"did not publish by job\.files"):
        sink(tmp_path).publish(frame, BatchContext(4, 3, 1, JOB, manifest))
    assert frame.written == []
