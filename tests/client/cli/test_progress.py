"""The progress of transfers: counted once, shown on a terminal alone, and only if they take a while."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

import milepost
from milepost.cli import progress
from milepost.cli.progress import Bar, transfer

SLOW = """
from milepost.cli import progress
progress.SHOWN_AFTER = {after}
with progress.transfer("latest", 4096, quiet={quiet}, no_progress=False) as bar:
    for _ in range(4):
        bar.advance(1024)
"""


def shown(after: float, *, quiet: bool = False) -> bytes:
    """What a terminal gets to see; there is nobody at it, but it is a real one."""
    ours, theirs = pty.openpty()
    try:
        program = SLOW.format(after=after, quiet=quiet)
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
        subprocess.run([sys.executable, "-c", program], stderr=theirs, env=environment, timeout=120, check=True)
        os.write(theirs, b"end")
        data = b""
        while not data.endswith(b"end"):
            data += os.read(ours, 65536)
        return data.removesuffix(b"end")
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_terminal_shows_bytes_only_after_a_while_and_only_if_that_is_wanted() -> None:
    bar = shown(0.0)
    assert b"latest" in bar
    assert b"kB" in bar
    assert shown(3600.0) == b""
    assert shown(0.0, quiet=True) == b""


def test_what_is_no_terminal_shows_nothing(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SHOWN_AFTER", 0.0)
    with transfer("latest", 10, quiet=False, no_progress=False) as bar:
        assert list(bar.counted([b"abc", b"de"])) == [b"abc", b"de"]
    assert bar.done == 5
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_read_for_its_digest_first_counts_when_it_is_sent(blocking: milepost.Client, name: str) -> None:
    bar = Bar("latest", 6, shown=False)
    with blocking.session(holder="bar") as session:
        session.store(name).add_and_lock("latest", io.BytesIO(b"state!"), progress=bar.report_progress)
    assert bar.done == 6
    bar.report_progress(0, 6)  # the second attempt begins anew
    assert bar.done == 0
    bar.report_progress(6, 6)
    assert bar.done == 6


def test_a_file_that_can_be_read_once_counts_at_once(blocking: milepost.Client, name: str) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"state!")
    os.close(theirs)
    bar = Bar("latest", None, shown=False)
    with open(ours, "rb") as piped, blocking.session(holder="bar") as session:
        session.store(name).add_and_lock("latest", piped, progress=bar.report_progress)
    assert bar.done == 6
