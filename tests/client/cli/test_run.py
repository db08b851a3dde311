"""``milepost run`` as a real process over the real service; small Python programs are the jobs."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.cli.run import PatientLog
from milepost.wire import NAME_RULE
from testbed.ports import Port
from tests.client.cli.conftest import MAIN
from tests.client.conftest import Service, eventually, serving

DEADLINE = 60.0
JOB = """
import json, os, pathlib, signal, sys, time
told = pathlib.Path(sys.argv[1])
def tell(**fields):
    with told.open("a") as file:
        file.write(json.dumps(fields) + "\\n")
def term(number, frame):
    tell(signal=number)
    sys.exit(4)
signal.signal(signal.SIGTERM, term)
signal.signal(signal.SIGINT, term)
signal.signal(signal.SIGQUIT, term)
given = {name: value for name, value in os.environ.items() if name.startswith("MILEPOST_")}
tell(pid=os.getpid(), given=given, options=os.environ["JDK_JAVA_OPTIONS"].strip('"@'),
     properties=pathlib.Path(os.environ["JDK_JAVA_OPTIONS"].strip('"@')).read_text())
"""
LASTS = JOB + "time.sleep(300)\n"


class Running:
    """A ``milepost run`` and what its job has told."""

    def __init__(
        self, url: str, directory: Path, job: str, *arguments: str, program: str = LASTS, log: int | None = None
    ) -> None:
        self.told = directory / "told"
        self._log = directory / "log"
        options = ["run", "--job", job, *arguments, "--", sys.executable, "-c", program, str(self.told)]
        with self._log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", MAIN, *options],
                env={**os.environ, "MILEPOST_URL": url, "NO_COLOR": "1", "TMPDIR": str(directory)},
                stdout=file,
                stderr=file if log is None else log,
            )

    def events(self) -> list[dict[str, Any]]:
        """What its job has told."""
        lines = self.told.read_text().split("\n")[:-1] if self.told.exists() else []
        return [json.loads(line) for line in lines]

    def starts(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until its job has been started so often."""
        eventually(lambda: len([e for e in self.events() if "pid" in e]) >= count or self.process.poll() is not None)
        found = [event for event in self.events() if "pid" in event]
        assert len(found) == count, self.log()
        return found

    def log(self) -> str:
        """What it said."""
        return self._log.read_text()

    def says(self, text: str) -> None:
        """Wait until it says something."""
        eventually(lambda: text in self.log() or self.process.poll() is not None)
        assert text in self.log()

    def ended(self) -> int:
        """Wait for its end."""
        return self.process.wait(DEADLINE)


Run = Callable[..., Running]


@pytest.fixture
def run(service: Service, name: str, tmp_path: Path) -> Iterator[Run]:
    """Begins what is killed at the end of the test if it has not ended; so is its job."""
    begun: list[Running] = []

    def begin(*arguments: str, program: str = LASTS, url: str = service.url, log: int | None = None) -> Running:
        directory = tmp_path / f"run-{len(begun)}"
        directory.mkdir()
        begun.append(Running(url, directory, name, *arguments, program=program, log=log))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.wait(DEADLINE)
        for event in one.events():
            if "pid" in event and Path(f"/proc/{event['pid']}").exists():
                os.killpg(event["pid"], signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_each_start_has_an_epoch_of_its_own_until_it_failed_too_often(run: Run, service: Service, name: str) -> None:
    running = run("--restarts", "1", program=JOB + "sys.exit(3)")
    assert running.ended() == 3
    starts = running.starts(2)
    for epoch, start in enumerate(starts, 1):
        authority = service.url.removeprefix("http://")
        location = f"webhdfs://{authority}/jobs/{name}/checkpoint"
        given = {"JOB": name, "EPOCH": str(epoch), "CHECKPOINT_LOCATION": location}
        assert {f"MILEPOST_{name}": value for name, value in given.items()}.items() <= start["given"].items()
        assert f'"-Dspark.hadoop.dfs.webhdfs.rest-csrf.custom-header=X-Milepost-{name}-{epoch}"' in start["properties"]
        assert f'"-Dspark.sql.streaming.checkpointLocation={location}/queries"' in start["properties"]
        assert not Path(start["options"]).exists()
    assert "giving up, after 1 restarts within 600 s" in running.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_is_passed_on_and_then_it_resigns(
    run: Run, blocking: milepost.Client, name: str, number: signal.Signals
) -> None:
    running = run()
    running.starts()
    described = blocking.job_info(name).process
    assert described is not None
    assert described.pid == running.process.pid
    running.process.send_signal(number)
    assert running.ended() == 4
    assert running.events()[1] == {"signal": number}
    assert blocking.session("next").store(name).campaign(0.0).epoch == 2


def test_a_command_that_does_not_end_is_killed(run: Run) -> None:
    running = run("--grace", "0.5", program=LASTS.replace("sys.exit(4)", "pass"))
    (start,) = running.starts()
    running.process.terminate()
    assert running.ended() == 137
    assert not alive(start["pid"])


def test_the_command_and_what_it_started_have_one_grace_together(run: Run) -> None:
    child = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(); time.sleep(300)"
    begin = f"import subprocess; child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
    program = LASTS.replace("tell(pid", f"{begin}child.stdout.readline()\ntell(pid")
    running = run("--grace", "8", program=program.replace("sys.exit(4)", "time.sleep(7); sys.exit(4)"))
    running.starts()
    began = time.monotonic()
    running.process.terminate()
    assert running.ended() == 4
    assert 8.0 <= time.monotonic() - began < 13.0


def test_while_another_leads_it_ends_after_its_wait(run: Run, blocking: milepost.Client, name: str) -> None:
    blocking.session("the leader").store(name).campaign()
    running = run("--wait", "0.5")
    assert running.ended() == 125
    assert f"job {name} is led by the leader (epoch 1)" in running.log()
    assert running.events() == []


def test_a_standby_waits_until_the_epoch_is_free(run: Run, blocking: milepost.Client, name: str) -> None:
    leader = blocking.session("the leader").store(name)
    leader.campaign()
    running = run("--standby", "--wait", "0", program=JOB)
    running.says("standing by: the leader leads")
    assert running.events() == []
    leader.resign()
    assert running.starts()[0]["given"]["MILEPOST_EPOCH"] == "2"
    assert running.ended() == 0


def test_a_standby_ends_when_it_is_asked_to(run: Run, blocking: milepost.Client, name: str) -> None:
    blocking.session("the leader").store(name).campaign()
    running = run("--standby")
    running.says("standing by: the leader leads")
    running.process.terminate()
    assert running.ended() == 143
    assert running.events() == []


def test_a_standby_waits_for_a_service_that_is_away_and_ends_when_it_is_asked_to(run: Run) -> None:
    port = Port()
    running = run("--standby", "--wait", "0", url=f"http://{port.address}")
    running.says("the service gives no session yet")
    time.sleep(2.0)
    assert running.process.poll() is None, running.log()
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == 143
    assert running.events() == []


def test_a_supervisor_that_was_frozen_ends_its_command(run: Run, name: str) -> None:
    """The job itself ran on: what it writes is refused, but nobody knows what else it does."""
    frozen = run("--ttl", "10", "--wait", "10")
    (start,) = frozen.starts()
    frozen.process.send_signal(signal.SIGSTOP)
    standby = run("--standby")
    assert standby.starts()[0]["given"]["MILEPOST_EPOCH"] == "2"
    assert alive(start["pid"])
    frozen.process.send_signal(signal.SIGCONT)
    assert frozen.ended() == 125
    assert not alive(start["pid"])
    assert frozen.events()[1:] == [{"signal": signal.SIGTERM}]
    assert f"epoch 1 of job {name} is lost, ending the command" in frozen.log()
    assert "is led by" in frozen.log()
    assert standby.process.poll() is None
    standby.process.terminate()
    assert standby.ended() == 4


def test_a_command_that_ended_well_by_itself_is_done_though_nobody_watched(run: Run) -> None:
    running = run("--ttl", "10", program=JOB + "time.sleep(1)")
    (start,) = running.starts()
    running.process.send_signal(signal.SIGSTOP)
    eventually(lambda: not alive(start["pid"]))
    time.sleep(11.0)
    running.process.send_signal(signal.SIGCONT)
    assert running.ended() == 0
    assert len(running.starts()) == 1


def test_a_supervisor_whose_log_nobody_reads_ends_its_command_and_then_itself(run: Run) -> None:
    read, write = os.pipe()
    try:
        running = run("--ttl", "10", "--restarts", "0", log=write)
        (start,) = running.starts()
        os.set_blocking(write, False)
        with suppress(BlockingIOError):
            while True:
                os.write(write, b"x")
        os.set_blocking(write, True)
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(11.0)
        running.process.send_signal(signal.SIGCONT)
        eventually(lambda: not alive(start["pid"]))
        assert running.ended() == 125, "it waits for who reads why it ended"
    finally:
        os.close(write)
        os.close(read)


def test_an_outage_that_outlasts_the_session_ends_in_a_new_start(run: Run, tmp_path: Path) -> None:
    port = Port()
    with serving(tmp_path, port=port) as service:
        running = run("--ttl", "10", url=service.url)
        running.starts()
    running.says("is lost, ending the command")
    with serving(tmp_path, port=port):
        assert [start["given"]["MILEPOST_EPOCH"] for start in running.starts(2)] == ["1", "2"]
        running.process.terminate()
        assert running.ended() == 4


def test_what_can_never_run_is_refused(service: Service) -> None:
    def said(*arguments: str, url: str = service.url) -> tuple[int, str]:
        command = [sys.executable, "-W", "error", "-c", MAIN, "--url", url, "run", *arguments]
        ended = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
        return ended.returncode, ended.stderr.decode().splitlines()[-1]

    status, line = said("--job", "a/b", "true")
    assert status == 125
    assert line == f"InvalidName: not a valid name for a store: 'a/b' ({NAME_RULE})"
    status, line = said("--job", "j", "spark-submit", "--deploy-mode", "cluster", "job.jar")
    assert status == 125
    assert line.startswith("ValueError: --deploy-mode cluster: the driver has to run here")
    status, line = said("--job", "j", "--authority", "my_job", "true")
    assert status == 125
    assert line.startswith("ValueError: 'my_job' cannot be the authority of a checkpoint location")
    status, line = said("--job", "j", "true", url=f"{service.url}/prefix")
    assert status == 125
    assert "/prefix has a path, and Hadoop finds files only at the root" in line
    status, line = said("--job", "j", "--wait", "0", "true", url="http://127.0.0.1:1")
    assert status == 125
    assert line.startswith("ConnectionFailed: ")


def test_a_command_that_is_not_there(service: Service, name: str, tmp_path: Path) -> None:
    program = str(tmp_path / "nothing")
    command = [sys.executable, "-c", MAIN, "--url", service.url, "run", "--job", name, program]
    ended = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    assert ended.returncode == 127
    assert ended.stderr.decode().splitlines()[-1] == f"{program} cannot be started: No such file or directory"


@pytest.mark.parametrize("status", [126, 127])
def test_a_command_whose_program_a_shell_cannot_run_is_not_started_again(run: Run, status: int) -> None:
    running = run(program=JOB + f"sys.exit({status})")
    assert running.ended() == status
    assert len(running.starts(1)) == 1
    assert "its program cannot be run; it is not started again" in running.log()
    assert "starting it again" not in running.log()


def test_the_commands_need_no_spark() -> None:
    program = "import sys, milepost.cli.app; assert not {'pyspark', 'py4j', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-W", "error", "-c", program], timeout=60, check=True)


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
