"""A token in a file that somebody else replaces, as a kubelet does with that of a ServiceAccount."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from milepost.drivers.environment import TokenFile


def test_a_new_token_counts_at_once(tmp_path: Path) -> None:
    """A kubelet exchanges a link to a directory, so that the file is never seen half written."""
    for number in (1, 2):
        (tmp_path / f"data-{number}").mkdir()
        (tmp_path / f"data-{number}" / "token").write_text(f"token-{number}\n")
    (tmp_path / "data").symlink_to("data-1")
    token = TokenFile(tmp_path / "data" / "token")
    assert token() == "token-1"
    (tmp_path / "next").symlink_to("data-2")
    os.replace(tmp_path / "next", tmp_path / "data")
    assert token() == "token-2"


def test_a_token_of_the_same_length_written_at_the_same_time_counts_too(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("aaaa")
    token, times = TokenFile(file), file.stat()
    file.write_text("bbbb")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert token() == "bbbb"


def test_while_it_cannot_be_read_the_one_before_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "token"
    file.write_text("very-secret-1")
    token = TokenFile(file)
    file.write_text("")  # whoever writes it is not done
    assert [token(), token()] == ["very-secret-1"] * 2
    file.unlink()
    assert token() == "very-secret-1"
    file.write_text("very-secret-2")
    assert token() == "very-secret-2"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]  # once, not at each request
    assert "very-secret" not in caplog.text + repr(token)


def test_it_tells_whether_others_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("very-secret-1")
    token = TokenFile(file)
    for mode, said in ((0o600, False), (0o640, True), (0o604, True)):
        file.chmod(mode)
        assert token.readable_by_others is said
    file.unlink()
    assert token.readable_by_others is False


@pytest.mark.parametrize("content", [None, b"", b" \n", b"driver very-secret\n", b"one\ntwo\n", "sécret".encode()])
def test_a_file_without_a_token_is_refused_at_once(tmp_path: Path, content: bytes | None) -> None:
    """Among them the server's own file of tokens, whose lines begin with a name."""
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match="cannot use the file of a token") as raised:
        TokenFile(file)
    assert "cret" not in str(raised.value)
