"""Lines of the log: one for each record, whoever chose the words in it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from milepost_server.basics.log_lines import LogLines

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
