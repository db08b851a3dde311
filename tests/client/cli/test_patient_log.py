"""A log into a pipe that nobody reads."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator

import pytest

from milepost.cli.patient_log import PatientLog


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_nobody_waits_and_what_was_dropped_is_counted(pipe: tuple[int, int]) -> None:
    read, write = pipe
    handler = PatientLog(write)
    handler.setFormatter(logging.Formatter("told: %(message)s"))
    log = logging.Logger("of this test")
    log.addHandler(handler)
    line = "x" * 1000
    began = time.monotonic()
    for number in range(3000):
        log.warning("%d %s", number, line)
    assert time.monotonic() - began < 30.0
    text = ""
    while "dropped" not in text or not text.endswith("\n"):
        text += os.read(read, 65536).decode()
    lines = text.splitlines()
    numbers = [int(told.split()[1]) for told in lines if told.endswith(line)]
    (dropped,) = [told.split()[1] for told in lines if "dropped" in told]
    assert numbers == sorted(set(numbers))
    assert numbers[:900] == list(range(900))
    assert len(numbers) + int(dropped) == 3000
    handler.flush()


def test_a_reader_that_is_gone_is_no_error() -> None:
    read, write = os.pipe()
    handler = PatientLog(write)
    os.close(write)  # the log has it still
    log = logging.Logger("of this test")
    log.addHandler(handler)
    log.warning("a %s", "line")
    handler.flush()
    assert os.read(read, 100) == b"a line\n"
    os.close(read)
    log.warning("another")
    log.warning("and another")
    began = time.monotonic()
    handler.flush()
    assert time.monotonic() - began < 1.5
