"""The access log: in order, whole, and none of it lost."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from parts.server import DEADLINE_SECONDS, ROOT
from service.http import access
from service.http.access import BatchingHandler

LINE = "INFO milepost.access GET /v1/stores 200 1.5 ms "


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What a handler of its own writes of all loggers below ``milepost``."""
    written, logger = io.StringIO(), logging.getLogger("milepost")
    handler = BatchingHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield written
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def note(request_id: str) -> None:
    access.note("GET", "/v1/stores", 200, 0.0015, request_id)


def test_lines_are_written_within_a_moment(stream: io.StringIO) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    for turn in ("first", "second"):
        note(turn)
        while turn not in stream.getvalue():
            assert time.monotonic() < end
            time.sleep(0.01)
    assert stream.getvalue() == f"{LINE}first\n{LINE}second\n"


def test_whatever_else_is_logged_is_written_at_once_with_all_before_it(stream: io.StringIO) -> None:
    note("before")
    logging.getLogger("milepost.journal").info("leading")
    assert stream.getvalue() == f"{LINE}before\nINFO milepost.journal leading\n"


def test_many_lines_do_not_wait(stream: io.StringIO) -> None:
    for number in range(5000):
        note(str(number))
    assert len(stream.getvalue().splitlines()) >= 4000


def test_a_path_cannot_make_lines_of_its_own(stream: io.StringIO) -> None:
    access.note("GET", "/x\n\x1fforged", 404, 0.0, "id")
    logging.getLogger("milepost").warning("end")
    assert stream.getvalue().splitlines()[0] == r"INFO milepost.access GET /x\n\x1fforged 404 0.0 ms id"


def test_nothing_is_written_where_the_level_is_above_it(stream: io.StringIO) -> None:
    logging.getLogger("milepost").setLevel(logging.WARNING)
    note("unwanted")
    logging.getLogger("milepost").warning("end")
    assert stream.getvalue() == "WARNING milepost end\n"


@pytest.mark.parametrize("end", ["sys.exit(3)", "raise SystemExit(3)", "1 / 0", "pass"])
def test_an_orderly_exit_loses_nothing(end: str) -> None:
    program = f"""
import logging, sys
from service.http import access
logging.basicConfig(level="INFO", handlers=[access.BatchingHandler(sys.stderr)], format="%(message)s")
for number in range(10):
    access.note("GET", "/", 200, 0.0, f"id-{{number}}")
{end}
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    lines = [line for line in ended.stderr.splitlines() if line.startswith("GET /")]
    assert [line.split()[-1] for line in lines] == [f"id-{number}" for number in range(10)]
