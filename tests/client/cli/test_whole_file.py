"""A file that appears under its name only once it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.cli.whole_file import copied


def test_nothing_is_under_the_name_until_all_is_there(tmp_path: Path) -> None:
    target = tmp_path / "state"

    def chunks() -> Iterator[bytes]:
        for chunk in (b"one", b"two"):
            assert not target.exists()
            yield chunk

    assert copied(chunks(), target) == 6
    assert target.read_bytes() == b"onetwo"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError("of the source"), KeyboardInterrupt()])
def test_what_was_there_stays_when_the_source_fails(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "state"
    target.write_bytes(b"of before")

    def chunks() -> Iterator[bytes]:
        yield b"one"
        raise error

    with pytest.raises(type(error)):
        copied(chunks(), target)
    assert (list(tmp_path.iterdir()), target.read_bytes()) == ([target], b"of before")


def test_a_link_is_followed_and_the_mode_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "state", tmp_path / "link"
    target.write_bytes(b"of before")
    target.chmod(0o600)
    link.symlink_to(target)
    copied([b"new"], link)
    assert link.is_symlink()
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"new", 0o600)


def test_a_name_may_be_as_long_as_a_file_system_takes(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250)
    copied([b"new"], target)
    assert target.read_bytes() == b"new"


def test_what_is_no_file_is_written_as_it_is() -> None:
    assert copied([b"new"], Path("/dev/null")) == 3
    assert Path("/dev/null").is_char_device()
