"""Local files by themselves and by way of Hadoop: the same answers."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from milepost.spark.output import file_systems
from milepost.spark.output.file_systems import HadoopFiles, LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def put(directory: Path, path: str, content: str) -> None:
    target = directory / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)


@pytest.fixture(params=["local", "hadoop"])
def files(request: pytest.FixtureRequest, spark: SparkSession) -> LocalFiles | HadoopFiles:
    return LocalFiles() if request.param == "local" else HadoopFiles(spark)


@pytest.fixture
def root(tmp_path: Path, spark: SparkSession) -> str:
    """A directory whose name needs care, as a URI."""
    (tmp_path / "out put=1").mkdir()
    return HadoopFiles(spark).qualified(str(tmp_path / "out put=1"))


def test_what_was_written_is_read(files: LocalFiles | HadoopFiles, root: str) -> None:
    files.write_new(f"{root}/_milepost/page.json", b"\x00page")
    assert files.read(f"{root}/_milepost/page.json") == b"\x00page"
    assert files.read(f"{root}/_milepost/nothing") is None


@pytest.mark.parametrize("size", [0, 6000, 20_001])
def test_files_of_any_size_are_read(files: LocalFiles | HadoopFiles, root: str, size: int) -> None:
    content = bytes(range(256)) * 100
    files.write_new(f"{root}/page", content[:size])
    assert files.read(f"{root}/page") == content[:size]


def test_no_answer_of_the_jvm_waits_for_an_acknowledgement(spark: SparkSession, root: str) -> None:
    """Py4J sends an answer in pieces of 8,192 bytes, and waits 40 ms before the last piece of several."""
    hadoop = HadoopFiles(spark)
    hadoop.write_new(f"{root}/page", bytes(100_000))
    answers: list[str] = []
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send_command = client.send_command

    def sent(*arguments: Any, **options: Any) -> Any:
        answers.append(send_command(*arguments, **options))
        return answers[-1]

    client.send_command = sent
    try:
        assert hadoop.read(f"{root}/page") == bytes(100_000)
    finally:
        client.send_command = send_command
    assert 0 < max(map(len, answers)) < 8192


def test_directories_that_were_made_for_it_survive_a_crash_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash of the machine cannot be had, so it is seen to that each name is synced in the directory it is in."""
    synced: list[Path] = []
    monkeypatch.setattr(file_systems, "sync", synced.append)
    LocalFiles().write_new(f"file:{tmp_path}/a/b/out/_milepost/page.json", b"page")
    page = tmp_path / "a/b/out/_milepost/page.json"
    assert {page, *list(page.parents)[:5]} <= set(synced)
    assert page.parents[4] == tmp_path


def test_on_windows_no_directory_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows' rules are played here, since no test has a Windows."""
    real = os.open

    def opened(path: Path, flags: int) -> int:
        assert (path.is_dir(), flags) == (False, os.O_RDWR)
        return real(path, flags)

    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "open", opened)
    LocalFiles().write_new(f"file:{tmp_path}/a/page", b"page")
    assert LocalFiles().files(f"file:{tmp_path}/a") == [("page", 4)]
    assert str(file_systems.local_path("file:/C:/a b/page")) == "C:/a b/page"


def test_nothing_is_written_over(files: LocalFiles | HadoopFiles, root: str) -> None:
    files.write_new(f"{root}/page", b"first")
    with pytest.raises(Exception, match="page"):
        files.write_new(f"{root}/page", b"second")
    assert files.read(f"{root}/page") == b"first"


def test_hidden_files_are_no_data(files: LocalFiles | HadoopFiles, root: str, tmp_path: Path) -> None:
    for path in ("part-1", "part-0", "day=3/part-0", "_SUCCESS", ".part-0.crc", "_temporary/0/part-9"):
        put(tmp_path / "out put=1" / "batch=0", path, "12345")
    assert files.files(f"{root}/batch=0") == [("day=3/part-0", 5), ("part-0", 5), ("part-1", 5)]


def test_a_directory_that_is_gone_has_no_files_to_publish(files: LocalFiles | HadoopFiles, root: str) -> None:
    """An empty manifest would be the loss of all its rows, without an error."""
    with pytest.raises(Exception, match="batch=0"):
        files.files(f"{root}/batch=0")


@pytest.mark.parametrize("failing", ["e1-ab", "day=3"])
def test_a_directory_that_cannot_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """A disk that fails at the right moment cannot be had, so the listing itself is made to."""
    put(tmp_path, "batch=0/e1-ab/part-0", "12345")
    put(tmp_path, "batch=0/e1-ab/day=3/part-1", "12345")
    scandir = os.scandir

    def broken(path: str) -> Any:
        if Path(path).name == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(OSError, match="Input/output error"):
        LocalFiles().files(f"file:{tmp_path}/batch=0/e1-ab")


def test_names_in_a_directory(files: LocalFiles | HadoopFiles, root: str, tmp_path: Path) -> None:
    for name in ("e2-ab", "e1-cd"):
        put(tmp_path / "out put=1" / "batch=0", f"{name}/part-0", "")
    assert files.names(f"{root}/batch=0") == ["e1-cd", "e2-ab"]
    assert files.names(f"{root}/batch=1") == []


def test_what_was_deleted_is_gone_and_deleting_nothing_is_fine(
    files: LocalFiles | HadoopFiles, root: str, tmp_path: Path
) -> None:
    put(tmp_path / "out put=1", "batch=0/e1-ab/part-0", "")
    files.write_new(f"{root}/page", b"x")
    for path in ("batch=0", "page", "nothing"):
        files.delete(f"{root}/{path}")
    assert list((tmp_path / "out put=1").iterdir()) == []


def test_only_an_empty_directory_is_deleted_as_one(files: LocalFiles | HadoopFiles, root: str, tmp_path: Path) -> None:
    output = tmp_path / "out put=1"
    put(output, "batch=0/e1-ab/part-0", "12345")
    (output / "batch=1").mkdir()
    for path in ("batch=0", "batch=1", "nothing"):
        files.delete_empty(f"{root}/{path}")
    assert [path.name for path in output.iterdir()] == ["batch=0"]
    assert (output / "batch=0/e1-ab/part-0").read_text() == "12345"


def test_paths_become_uris_and_absent_files_have_no_time(spark: SparkSession, tmp_path: Path) -> None:
    hadoop = HadoopFiles(spark)
    assert hadoop.qualified(f"{tmp_path}/") == f"file:{tmp_path}"
    put(tmp_path, "a b.json", "{}")
    escaped = f"file://{tmp_path}/a%20b.json"
    assert hadoop.modified_ms(escaped) == (tmp_path / "a b.json").stat().st_mtime_ns // 1_000_000
    assert hadoop.modified_ms(f"{escaped}.gone") is None


def test_files_in_several_places_are_found_by_the_settings_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    """A name service, or the key of a bucket, may be set there alone."""
    for name in ("one", "two"):
        put(tmp_path / name, "file", name)
        spark.conf.set(f"fs.viewfs.mounttable.{name}.link./in", f"file:{tmp_path / name}")
    hadoop = HadoopFiles(spark)
    for name in ("one", "two", "one"):
        assert hadoop.read(f"viewfs://{name}/in/file") == name.encode()
        spark.conf.unset(f"fs.viewfs.mounttable.{name}.link./in")
