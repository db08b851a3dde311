"""A file that is kept, whatever happens to temporary files."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from milepost.supervise.private_file import PrivateFile


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_it_is_this_users_alone_and_gone_at_the_end(temporary: Path) -> None:
    with PrivateFile("epoch-7", "text") as file:
        assert file.path.read_text() == "text"
        assert file.path.name == "epoch-7"
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert list(temporary.iterdir()) == []


def test_it_looks_new_for_as_long_as_it_is_kept() -> None:
    with PrivateFile("epoch-7", "text") as file:
        for path in (file.path, file.path.parent):
            os.utime(path, (1.0, 1.0))
        file.keep()
        assert min(file.path.stat().st_mtime, file.path.parent.stat().st_mtime) > 1e9
        assert file.path.read_text() == "text"


@pytest.mark.parametrize("gone", ["the file", "its directory", "all temporary files"])
def test_it_is_written_again_if_it_is_gone(temporary: Path, gone: str, caplog: pytest.LogCaptureFixture) -> None:
    with PrivateFile("epoch-7", "text") as file:
        if gone == "the file":
            file.path.unlink()
        else:
            shutil.rmtree(file.path.parent if gone == "its directory" else temporary)
        file.keep()
        assert file.path.read_text() == "text"
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert "wrote it again" in caplog.text
    assert not file.path.parent.exists()


def test_it_is_not_written_into_a_directory_that_others_may_change(caplog: pytest.LogCaptureFixture) -> None:
    with PrivateFile("epoch-7", "text") as file:
        file.path.unlink()
        file.path.parent.chmod(0o777)
        file.keep()
        assert not file.path.exists()
    assert "may not find its settings" in caplog.text


def test_it_cannot_be_written_at_all(temporary: Path) -> None:
    shutil.rmtree(temporary)
    with pytest.raises(FileNotFoundError):
        PrivateFile("epoch-7", "text")
