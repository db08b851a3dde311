"""Where checkpoint directories lie, and which of them are cleared away."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from milepost.errors import UnsafeQuery
from milepost.spark.checkpoints.workdir import default_workdir, remove_older, remove_unfinished
from tests.spark.checkpoints.directories import put


def test_a_cluster_needs_a_directory_that_all_see() -> None:
    with pytest.raises(UnsafeQuery, match="workdir="):
        default_workdir("spark://host:7077")


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_one_machine_gets_a_private_one(master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    directory = default_workdir(master)
    assert directory == default_workdir(master)
    assert directory.parent == tmp_path
    assert directory.stat().st_mode & 0o077 == 0


def test_what_somebody_else_put_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"milepost-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeQuery, match="somebody else"):
        default_workdir("local[2]")


def test_older_epochs_are_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    for path in ("e1/offsets/0", "e2.tmp/metadata", "e7/metadata", "e7.tmp/metadata", "e8/metadata", "else/e1"):
        put(tmp_path, path, "x")
    put(tmp_path, ".e2.layer", "x")
    remove_unfinished(tmp_path, 7)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e1", "e7", "e7.tmp", "e8", "else"]
    remove_older(tmp_path, 7)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e7", "e7.tmp", "e8", "else"]
    remove_older(tmp_path / "nowhere", 7)
    remove_unfinished(tmp_path / "nowhere", 7)
