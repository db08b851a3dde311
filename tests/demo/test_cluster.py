"""The demo on a cluster: what its parts tell, and the whole of it, as ``make demo-cluster`` runs it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from demo.cluster.drivers import Driver
from demo.cluster.output import Found, flights_in, look, totals_of
from demo.cluster.table import Run, complaints, table
from demo.timeline import (
    BEGAN,
    FAILED,
    FENCED,
    KILLED,
    LEADS,
    PAUSED,
    PUBLISHED,
    STANDBY,
    WOKEN,
    Event,
    EventLog,
)
from tests.docs.checkout import variables

ROOT = Path(__file__).parents[2]
FLIGHTS = pa.table({"id": [0, 1, 2, 3], "carrier": ["AA", "AA", "UA", "AA"], "distance": [100, 50, 700, 25]})
EXACT = Found(rows_in=4, rows_out=4, carriers=2, wrong_totals=0, batches=2, again=(), otherwise=())
SPLIT = replace(EXACT, again=(1, 2), otherwise=(2,))
SUPERVISED = [
    Event(10.0, "A", LEADS, epoch=1),
    Event(11.0, "B", STANDBY),
    Event(12.0, "A", PUBLISHED, batch=0),
    Event(13.0, "A", PAUSED),
    Event(28.0, "B", LEADS, epoch=2),
    Event(29.0, "B", PUBLISHED, batch=1),
    Event(30.0, "A", WOKEN),
    Event(31.0, "A", FENCED, detail="AccessControlException"),
    Event(32.0, "A", STANDBY),
    Event(33.0, "B", KILLED),
    Event(48.0, "A", LEADS, epoch=3),
    Event(50.5, "A", PUBLISHED, batch=2),
]
ALONE = [
    Event(10.0, "A", LEADS),
    Event(12.0, "A", PUBLISHED, batch=0),
    Event(13.0, "A", PAUSED),
    Event(28.0, "B", LEADS),
    Event(29.0, "B", PUBLISHED, batch=1),
    Event(30.0, "A", WOKEN),
    Event(31.0, "A", PUBLISHED, batch=1),
    Event(33.0, "B", KILLED),
    Event(34.0, "A", PUBLISHED, batch=2),
    Event(35.0, "A", FAILED, detail="[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update"),
    Event(50.0, "A", LEADS),
    Event(52.0, "A", PUBLISHED, batch=2),
]
GOOD, BAD = Run(SUPERVISED, EXACT), Run(ALONE, SPLIT)


def write(directory: Path, name: str, text: str, age: int) -> None:
    path = directory / name
    path.write_text(text)
    os.utime(path, ns=(10**18 - age, 10**18 - age))


def test_of_each_batch_the_newest_file_counts(tmp_path: Path) -> None:
    write(tmp_path, "batch-0-app-1", "AA 2 150\nUA 1 700", age=9)
    write(tmp_path, "batch-10-app-2", "AA 3 175", age=8)
    write(tmp_path, "batch123.part", "half of", age=1)
    assert look(tmp_path, FLIGHTS) == EXACT
    write(tmp_path, "batch-0-app-2", "AA 2 150\nUA 1 700", age=7)
    write(tmp_path, "batch-10-app-1", "AA 2 151", age=6)
    found = look(tmp_path, FLIGHTS)
    assert found == replace(EXACT, rows_out=3, wrong_totals=1, again=(0, 10), otherwise=(10,))
    assert flights_in(totals_of(tmp_path)) == 3


def test_the_log_of_a_driver_becomes_events(tmp_path: Path) -> None:
    told = """
    echo '12:00 milepost run: standing by: a leads flights'
    echo '12:00 milepost run: leading job flights under epoch 2, started process 99999999'
    echo 'batch 3 begins'
    echo 'WARN batch 3 begins, says somebody else'
    echo 'batch 3 is written'
    """
    log = EventLog(tmp_path / "events")
    driver = Driver("A", ["sh", "-c", told], tmp_path / "log", tmp_path, log)
    driver.start()
    assert driver.process.wait() == 0
    driver.poll()
    assert [(event.what, event.batch, event.epoch) for event in log.events()] == [
        (STANDBY, None, None),
        (LEADS, None, 2),
        (BEGAN, 3, None),
        (PUBLISHED, 3, None),
    ]


@pytest.mark.parametrize(
    ("told", "what", "detail"),
    [
        (
            "x.AccessControlException: epoch 2 is over\nx.AccessControlException: again",
            FENCED,
            "AccessControlException",
        ),
        ("Exception: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent", FAILED, "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent"),
        ("Exception: [CANNOT_LOAD.STATE] file", FAILED, "[CANNOT_LOAD.STATE] file"),
        ("nothing", FAILED, "without a reason"),
    ],
)
def test_how_a_driver_ended_is_told_once(tmp_path: Path, told: str, what: str, detail: str) -> None:
    log = EventLog(tmp_path / "events")
    driver = Driver("A", ["echo", told], tmp_path / "log", tmp_path, log)
    driver.start()
    assert driver.process.wait() == 0
    assert driver.has_failed()
    assert driver.has_failed()
    driver.poll()
    assert [(event.what, event.detail) for event in log.events()] == [(what, detail)]


def test_the_table_holds_both_runs() -> None:
    lines = table(GOOD, BAD).splitlines()
    assert len({len(line) for line in lines}) == 1
    rows = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines[2:]]
    assert {name: (left, right) for name, left, right in rows} == {
        "flights in": ("4", "4"),
        "flights in the totals at the end": ("4", "4"),
        "carriers whose totals end wrong": ("0 of 2", "0 of 2"),
        "batches": ("2", "2"),
        "batches that were written twice": ("0", "2"),
        "… the second time with other totals": ("0", "1"),
        "seconds from pause to the next leader": ("15.0", "told after 15.0"),
        "seconds from pause to its first batch": ("16.0", "16.0"),
        "seconds from kill -9 to the next leader": ("15.0", "told after 17.0"),
        "seconds from kill -9 to its first batch": ("17.5", "19.0"),
        "what the paused driver wrote, woken": ("nothing", "2 batches, 1 to 2"),
        "… and how it ended": ("AccessControlException", "CONCURRENT_STREAM_LOG_UPDATE"),
    }


def test_nothing_is_wrong_when_all_is_as_it_must_be() -> None:
    assert complaints(GOOD, BAD) == []


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (replace(EXACT, wrong_totals=1), "not those of the input"),
        (replace(EXACT, rows_out=3), "not those of the input"),
        (replace(EXACT, again=(1,), otherwise=(1,)), "different totals"),
    ],
)
def test_output_that_is_not_exact_is_wrong(found: Found, complaint: str) -> None:
    (said,) = complaints(Run(SUPERVISED, found), BAD)
    assert complaint in said


@pytest.mark.parametrize(
    ("instead", "complaint"),
    [
        (Event(31.0, "A", PUBLISHED, batch=1), "was not shut out"),
        (Event(31.0, "A", LEADS, epoch=2), "rising epochs"),
    ],
)
def test_a_woken_driver_that_is_not_shut_out_is_wrong(instead: Event, complaint: str) -> None:
    events = [instead if event.what == FENCED else event for event in SUPERVISED]
    assert any(complaint in said for said in complaints(Run(events, EXACT), BAD))


def test_a_plain_run_that_contradicted_itself_nowhere_shows_nothing() -> None:
    (said,) = complaints(GOOD, Run(ALONE, replace(SPLIT, otherwise=())))
    assert "contradicted itself nowhere" in said


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_it_ends_well_and_leaves_a_table_and_no_process(tmp_path: Path) -> None:
    shell = variables(ARGS=f"--output {tmp_path}")
    command = ["make", "demo-cluster"]
    ended = subprocess.run(command, cwd=ROOT, env=shell, capture_output=True, text=True, timeout=1700, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = (tmp_path / "table.txt").read_text()
    assert told in ended.stdout
    assert "336,776" in told
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert str(tmp_path) not in words, f"{process.name} runs on: {words}"
