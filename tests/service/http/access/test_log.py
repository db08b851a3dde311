"""Lines of the log: one for each record, whatever its text; those of the access log in order, none of them lost."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from milepost_server.http.access.log import AccessLog, LogLines
from testbed.server import DEADLINE_SECONDS, ROOT

LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO milepost\.access "


def note(access: AccessLog, request_id: str) -> None:
    access.note("GET", "/v1/stores", 200, 0.0015, request_id)


def test_a_log_that_ends_while_its_thread_goes_to_sleep_ends() -> None:
    class Ending(threading.Event):
        """Ends the log right before the thread forgets what it was told."""

        def clear(self) -> None:
            access._over.set()
            self.set()
            super().clear()

    access = AccessLog(io.StringIO())
    access._noted = Ending()
    access.__enter__()
    try:
        access._writer.join(DEADLINE_SECONDS)
        assert not access._writer.is_alive()
    finally:
        access.__exit__(None, None, None)


def test_lines_are_written_within_a_moment_and_in_order() -> None:
    stream, end = io.StringIO(), time.monotonic() + DEADLINE_SECONDS
    with AccessLog(stream) as access:
        for turn in ("first", "second"):
            note(access, turn)
            while turn not in stream.getvalue():
                assert time.monotonic() < end
                time.sleep(0.01)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    for line, turn in zip(lines, ("first", "second"), strict=True):
        assert re.fullmatch(f"{LINE}GET /v1/stores 200 1.5 ms {turn} -", line)


def test_nothing_is_left_unwritten_at_the_end() -> None:
    stream = io.StringIO()
    with AccessLog(stream) as access:
        for number in range(10_000):
            note(access, str(number))
    assert [line.split()[-2] for line in stream.getvalue().splitlines()] == [str(number) for number in range(10_000)]


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        ("/x\nforged", r"/x\nforged"),
        ("/x\x1fy", r"/x\x1fy"),
        ("/\u00e9\u2028", r"/\xe9\u2028"),
        ("/\\n", r"/\\n"),
        ("/" + "x" * 400, "/" + "x" * 299),
    ],
)
def test_no_path_can_make_lines_of_its_own(path: str, logged: str) -> None:
    stream = io.StringIO()
    with AccessLog(stream) as access:
        access.note("GET", path, 404, 0.0, "id")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(f"GET {logged} 404 0.0 ms id -")


def test_the_name_of_the_token_ends_the_line() -> None:
    stream = io.StringIO()
    with AccessLog(stream) as access:
        access.note("PUT", "/v1", 200, 0.0, "id", "the\ndriver's")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r"PUT /v1 200 0.0 ms id the\ndriver's")


def test_a_log_that_nobody_reads_any_more_hinders_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with AccessLog(stream) as access:
        note(access, "unread")
        end = time.monotonic() + DEADLINE_SECONDS
        while access.waiting:
            assert time.monotonic() < end
            time.sleep(0.01)
        note(access, "unread either")
    assert access.waiting == 0
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.parametrize("end", ["sys.exit(3)", "1 / 0", "pass"])
def test_an_orderly_exit_loses_nothing(end: str) -> None:
    program = f"""
import sys
from milepost_server.http.access.log import AccessLog, LogLines
with AccessLog(sys.stderr) as access:
    for number in range(10):
        access.note("GET", "/", 200, 0.0, f"id-{{number}}")
    {end}
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    lines = [line for line in ended.stderr.splitlines() if "GET /" in line]
    assert [line.split()[-2] for line in lines] == [f"id-{number}" for number in range(10)]


FORGED = "2026-01-31 12:00:00,000 INFO milepost.audit act=step-down by=ops"


@contextmanager
def logged() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogLines("%(levelname)s %(name)s %(message)s"))
    log = logging.Logger("milepost.test")
    log.addHandler(handler)
    yield log, stream


def test_no_message_can_make_lines_of_its_own() -> None:
    with logged() as (log, stream):
        for end in ("\n", "\r\n", "\r", "\x85", "\u2028", "\x0b"):
            log.warning("GET %s was cancelled", f"/x{end}{FORGED}")
            log.warning("plain caf\u00e9 'of' C:\\temp")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 12
    assert all(line.startswith("WARNING milepost.test ") for line in lines)
    assert lines[0] == f"WARNING milepost.test GET /x\\n{FORGED} was cancelled"
    assert lines[1] == "WARNING milepost.test plain caf\u00e9 'of' C:\\temp"


def test_no_line_of_a_traceback_looks_like_a_record() -> None:
    with logged() as (log, stream):
        try:
            raise ValueError(f"no name:\n{FORGED}\r{FORGED}")
        except ValueError:
            log.exception("it failed")
    first, *others = stream.getvalue().splitlines()
    assert first == "ERROR milepost.test it failed"
    assert others[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in others)
