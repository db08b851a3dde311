"""Which files make a checkpoint, and which do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import WrongCheckpoint
from milepost.spark.checkpoints.snapshot import (
    Stat,
    lagging_partitions,
    retry_while_files_vanish,
    scan,
    select,
    state_version,
)
from tests.spark.checkpoints.directories import log, put

ANY = Stat(1, 1)


def found(*paths: str) -> dict[str, Stat]:
    return dict.fromkeys(paths, ANY)


def test_all_files_are_found_but_for_those_with_a_dot(tmp_path: Path) -> None:
    log(tmp_path, 0, committed=True)
    put(tmp_path, "state/0/0/1.delta", b"12345")
    put(tmp_path, "state/0/0/.1.delta.crc", b"x")
    put(tmp_path, "state/0/0/.2.delta.7c1.tmp", b"x")
    put(tmp_path, ".hidden/file", b"x")
    listed = scan(tmp_path)
    assert sorted(listed) == ["commits/0", "metadata", "offsets/0", "state/0/0/1.delta"]
    assert listed["state/0/0/1.delta"].size == 5


def test_a_file_written_anew_is_another_one(tmp_path: Path) -> None:
    put(tmp_path, "state/0/0/1.delta", b"1")
    before = scan(tmp_path)
    put(tmp_path, "state/0/0/new", b"2")
    (tmp_path / "state/0/0/new").rename(tmp_path / "state/0/0/1.delta")
    assert scan(tmp_path) != before


def test_the_entry_to_a_batch_takes_its_offsets_and_the_commit_before_it() -> None:
    selection = select(
        found("metadata", "offsets/3", "offsets/4", "offsets/5", "commits/3", "commits/4", "sources/0/5"),
        5,
        committed=False,
    )
    assert sorted(selection.log) == ["commits/4", "metadata", "offsets/4", "offsets/5"]
    assert list(selection.files) == ["sources/0/5"]


def test_the_first_batch_has_no_commit_before_it() -> None:
    assert sorted(select(found("metadata", "offsets/0"), 0, committed=False).log) == ["metadata", "offsets/0"]


def test_the_final_checkpoint_takes_the_commit_of_its_batch_and_not_the_offsets_after_it() -> None:
    selection = select(found("metadata", "offsets/4", "offsets/5", "offsets/6", "commits/5"), 5, committed=True)
    assert sorted(selection.log) == ["commits/5", "metadata", "offsets/4", "offsets/5"]


@pytest.mark.parametrize(
    ("gone", "committed"),
    [
        ("metadata", False),
        ("offsets/2", False),
        ("commits/1", False),
        ("metadata", True),
        ("offsets/2", True),
        ("commits/2", True),
    ],
)
def test_a_directory_without_the_batchs_log_is_the_wrong_one(gone: str, committed: bool) -> None:
    files = found("metadata", "offsets/1", "offsets/2", "commits/1", "commits/2")
    del files[gone]
    with pytest.raises(WrongCheckpoint, match=gone):
        select(files, 2, committed=committed)


def test_state_beyond_the_batch_is_left_out_and_what_serves_all_versions_is_kept() -> None:
    log_files = ("metadata", "offsets/2", "commits/1")
    kept = (
        "sources/0/9.compact",
        "state/0/_metadata/metadata",
        "state/0/0/_metadata/schema",
        "state/0/0/SSTs/000008-db2e.sst",
        "state/0/0/1.snapshot",
        "state/0/0/2.delta",
        "state/0/1/2_5d0f-4711.changelog",
        "state/0/1/2_5d0f-4711.zip",
        "something/new/3.zip",
    )
    beyond = ("state/0/0/3.delta", "state/0/1/3_77aa.zip", "state/0/0/10.snapshot")
    assert set(select(found(*log_files, *kept, *beyond), 2, committed=False).files) == set(kept)
    assert "state/0/0/3.delta" in select(found(*log_files, "commits/2", *beyond), 2, committed=True).files


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("state/0/0/12.delta", 12),
        ("state/0/0/left-keyToNumValues/3.snapshot", 3),
        ("state/0/0/7_2c9e-01.changelog", 7),
        ("state/0/0/SSTs/000008-db2e.sst", None),
        ("state/0/_metadata/v2/0", None),
        ("sources/0/3.compact", None),
        ("sources/0/3.zip", None),
    ],
)
def test_versions_of_state_files(path: str, version: int | None) -> None:
    assert state_version(path) == version


def test_partitions_that_lag_behind_are_named() -> None:
    files = found(
        "state/0/0/3.delta",
        "state/0/0/4.delta",
        "state/0/1/3.delta",
        "state/0/2/4_aa.changelog",
        "state/0/3/5.delta",
        "state/0/_metadata/metadata",
    )
    assert lagging_partitions(files, 4) == ["state/0/1", "state/0/3"]
    assert lagging_partitions(found("sources/0/1", "offsets/1"), 2) == []


def test_a_listing_is_begun_anew_until_nothing_vanishes() -> None:
    attempts = iter([FileNotFoundError("gone"), FileNotFoundError("gone"), None])

    def read() -> str:
        error = next(attempts)
        if error is not None:
            raise error
        return "whole"

    assert retry_while_files_vanish(read) == "whole"


def test_what_vanishes_for_ever_is_an_error() -> None:
    def read() -> str:
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError):
        retry_while_files_vanish(read)
