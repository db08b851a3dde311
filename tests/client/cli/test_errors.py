"""Each exit code by the command as a process, against a real server; and which error has which."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import milepost
from milepost.cli.errors import ExitCode, exit_code
from milepost.core.calls.answers import handle
from milepost.errors import ERROR_OF, MilepostError, Problem
from milepost.wire import Code, Outcome
from tests.client.cli.conftest import MAIN, STATE, ended, started
from tests.client.conftest import Service, eventually
from tests.client.core.world import RECORD
from tests.client.test_strangers import writes
from tests.support.network.gateway import Fault, Gateway

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
UNAVAILABLE = {"no-leader", "storage-unavailable", "shutting-down", "too-many-requests", "discard-failed"}
UNKNOWN = {"outcome-unknown", "internal"}
USAGE = {"invalid-name"}


def test_done_is_0(service: Service, name: str, blocking: milepost.Client) -> None:
    end = ended(started(service.url, "put", name, "latest"), STATE)
    assert (end.returncode, end.stderr) == (0, b"")
    assert blocking.store(name).read("latest") == STATE


def test_refused_is_1(service: Service, name: str) -> None:
    end = ended(started(service.url, "show", name, "nothing"))
    assert (end.returncode, end.stdout) == (1, b"")
    assert end.stderr.startswith(b"NotExist: ")


@pytest.mark.parametrize("arguments", [["no-such-command"], ["ls", "--no-such-option"], ["show", "a/b", "latest"]])
def test_wrong_usage_is_2(service: Service, arguments: list[str]) -> None:
    end = ended(started(service.url, *arguments))
    assert (end.returncode, end.stdout) == (2, b"")
    assert end.stderr


def test_unavailable_is_3(name: str) -> None:
    """Nobody listens on the port."""
    end = ended(started("http://127.0.0.1:1", "--timeout", "0.5", "put", name, "latest"), STATE)
    assert (end.returncode, end.stdout) == (3, b"")
    assert b"\nConnectionFailed: " in b"\n" + end.stderr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file with a state, which can be sent more than once."""
    path = tmp_path / "state"
    path.write_bytes(STATE)
    return path


def test_an_unknown_outcome_is_4(proxy: Gateway, name: str, blocking: milepost.Client, source: Path) -> None:
    """A relay before the real server loses the answer to each attempt, which no server does when it is told to."""
    proxy(Fault(writes, lose_answer=True))
    end = ended(started(proxy.url, "--timeout", "2", "put", name, "latest", str(source)))
    assert (end.returncode, end.stdout) == (4, b"")
    assert b"\nOutcomeUnknown: " in b"\n" + end.stderr
    assert blocking.store(name).read("latest") == STATE, "it had been committed"


def test_an_unknown_outcome_stays_4_where_the_epoch_cannot_be_given_up_either(
    proxy: Gateway, name: str, source: Path
) -> None:
    """The relay loses these answers too."""
    proxy(Fault(lambda request: writes(request) or request.method == "DELETE", lose_answer=True))
    end = ended(started(proxy.url, "--timeout", "2", "put", name, "latest", str(source), "--campaign"))
    assert end.returncode == 4
    assert b"the epoch could not be given up, and ends with its session" in end.stderr


def test_interrupted_is_130(proxy: Gateway, name: str, blocking: milepost.Client) -> None:
    process = started(proxy.url, "put", name, "latest")  # its standard input does not end
    try:
        eventually(lambda: any(request.method == "HEAD" for request in proxy.requests))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        end = ended(process)
    assert b"Traceback" not in end.stderr
    assert blocking.store(name).exists("latest") is None


def test_interrupted_while_a_finalizer_runs_is_130(proxy: Gateway, name: str, blocking: milepost.Client) -> None:
    """Python drops what is raised in a finalizer; the collector may run one at any time."""
    program = f"""
import io, os, signal, sys

class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

class Input(io.RawIOBase):
    def readable(self):
        return True

    def readinto(self, buffer):
        Dying()
        return os.readv(0, [buffer])  # does not end

sys.stdin = io.TextIOWrapper(io.BufferedReader(Input()))
{MAIN}
"""
    process = started(proxy.url, "put", name, "latest", main=program)
    try:
        assert process.wait(60) == 130
    finally:
        end = ended(process)
    assert b"Traceback" not in end.stderr
    assert blocking.store(name).exists("latest") is None


@pytest.mark.parametrize("code", list(Code))
def test_each_problem_has_one(code: Code) -> None:
    found = exit_code(ERROR_OF[code](code))
    expected = {
        ExitCode.UNAVAILABLE: code.value in UNAVAILABLE,
        ExitCode.OUTCOME_UNKNOWN: code.value in UNKNOWN,
        ExitCode.USAGE: code.value in USAGE,
    }
    assert [each for each, holds in expected.items() if holds] == ([found] if found is not ExitCode.REFUSED else [])


def test_any_problem_that_leaves_the_outcome_open_is_4_and_a_fault_that_does_not_is_3() -> None:
    assert exit_code(Problem(Code.NOT_LOCKED, outcome=Outcome.UNKNOWN)) is ExitCode.OUTCOME_UNKNOWN
    assert exit_code(ERROR_OF[Code.INTERNAL](Code.INTERNAL, outcome=Outcome.NOT_APPLIED)) is ExitCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (milepost.ConnectionFailed("away"), ExitCode.UNAVAILABLE),
        (milepost.DeadlineExceeded("late"), ExitCode.UNAVAILABLE),
        (milepost.StateTruncated("short"), ExitCode.UNAVAILABLE),
        (milepost.LabelsLost("stored without", handle(RECORD)), ExitCode.OUTCOME_UNKNOWN),
        (milepost.Closed("closed"), ExitCode.REFUSED),
        (MilepostError("of a kind to come"), ExitCode.REFUSED),
        (OSError(28, "No space left on device"), ExitCode.REFUSED),
    ],
)
def test_other_errors(error: Exception, code: ExitCode) -> None:
    assert exit_code(error) is code


def test_the_page_has_all_of_them() -> None:
    if not PAGE.exists():
        pytest.fail("docs/cli.md is not there")
    rows = re.findall(r"^\| (\d+) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(row) for row in rows] == list(ExitCode)
