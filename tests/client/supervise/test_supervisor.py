"""The supervisor within this process; ``tests/client/cli/test_run.py`` has what signals do to it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

import milepost
from milepost.errors import SessionLost
from milepost.supervise import CannotStart, Supervisor, Terms
from milepost.supervise.agent import LISTENERS
from milepost.supervise.supervisor import Restarts
from testbed.ports import Port
from tests.client.conftest import Service, serving

ONCE = Terms(restarts=0)


@pytest.mark.parametrize(
    ("program", "status"), [("pass", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_status_of_the_command_is_passed_through(
    blocking: milepost.Client, name: str, program: str, status: int
) -> None:
    command = [sys.executable, "-c", program]
    assert Supervisor(blocking, name, command, ONCE).run() == status
    assert blocking.session("next").store(name).campaign(0.0).epoch == 2


def test_what_cannot_be_started_is_not_started_again(blocking: milepost.Client, name: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    with pytest.raises(CannotStart):
        Supervisor(blocking, name, [str(tmp_path / "text")], Terms()).run()
    assert blocking.session("next").store(name).campaign(0.0).epoch == 2


def test_a_command_that_lost_its_epoch_once_too_often(service: Service, blocking: milepost.Client, name: str) -> None:
    """Its session is ended by the command itself, which says that all is well when it has to end."""
    program = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0));"
        "import milepost; client = milepost.Client(sys.argv[1]); store = client.store(sys.argv[2]);"
        "client.session('thief', session_id=store.current_epoch().session).close(); time.sleep(300)"
    )
    command = [sys.executable, "-c", program, service.url, name]
    with pytest.raises(SessionLost):
        Supervisor(blocking, name, command, Terms(ttl=10.0, restarts=0)).run()


def test_a_person_stops_the_command_as_by_sigterm(service: Service, blocking: milepost.Client, name: str) -> None:
    """The command itself asks for that, in the name of a person; it is not started again, and no other is."""
    program = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9));"
        "import milepost; milepost.Client(sys.argv[1]).stop_job(sys.argv[2], who='anna'); time.sleep(300)"
    )
    command = [sys.executable, "-c", program, service.url, name]
    assert Supervisor(blocking, name, command, Terms()).run() == 9
    assert blocking.job_info(name).state == "stopped"
    with pytest.raises(milepost.EpochHeld, match="was stopped by anna"):
        Supervisor(blocking, name, command, Terms(wait=0.0)).run()


HANDED = """
import os, pathlib, shutil, sys, time
file = pathlib.Path(os.environ["JDK_JAVA_OPTIONS"].strip('"@'))
first = os.environ["MILEPOST_EPOCH"] == "1"
"""


def test_temporary_files_may_be_removed_meanwhile(blocking: milepost.Client, name: str) -> None:
    """As those are that have not been touched for ten days."""
    program = HANDED + "shutil.rmtree(file.parent) if first else file.read_text(); sys.exit(first)"
    command = [sys.executable, "-c", program]
    assert Supervisor(blocking, name, command, Terms(restarts=1)).run() == 0


def test_the_private_file_is_kept_while_the_command_runs(
    blocking: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("milepost.supervise.supervisor._KEEP", 0.1)
    # In one step, since a file that is written again while its directory is being emptied would be in the way.
    removed = "gone = file.parent.rename(file.parent.with_suffix('.gone')); shutil.rmtree(gone)"
    awaited = "end = time.monotonic() + 60\nwhile not file.exists(): assert time.monotonic() < end; time.sleep(0.1)"
    program = f"{HANDED}{removed}\n{awaited}"
    assert Supervisor(blocking, name, [sys.executable, "-c", program], ONCE).run() == 0


ROWS = (
    HANDED
    + """
import re, uuid, milepost
agent = re.search(r"-javaagent:(.*[.]jar)=(.*/rows)", file.read_text())
epoch, query = int(os.environ["MILEPOST_EPOCH"]), uuid.uuid4()
if agent is not None:
    assert pathlib.Path(agent[1]).read_bytes()[:2] == b"PK"
    with milepost.Client(sys.argv[1]) as client:
        files = client.store(sys.argv[2]).under(epoch).files
        files.write("checkpoint/metadata", b'{"id":"%s"}' % str(query).encode())
        files.write(f"checkpoint/commits/{epoch}", b"v1")
    pathlib.Path(agent[2]).write_text(f"{query}\\t{epoch}\\t{10 * epoch}\\n{query}\\t9\\t9\\n")
"""
)


def test_rows_that_a_start_has_written_come_into_the_history(
    service: Service, blocking: milepost.Client, name: str
) -> None:
    """The command writes what Spark and the agent would; the last line is of a batch that was never committed."""
    command = [sys.executable, "-c", ROWS + "sys.exit(first)", service.url, name]
    assert Supervisor(blocking, name, command, Terms(restarts=1)).run() == 0
    entries = [each for each in blocking.job_history(name) if each.kind == "batch-committed"]
    assert [(each.batch, each.epoch, each.input_rows) for each in entries] == [(2, 2, 20), (1, 1, 10)]


@pytest.mark.parametrize("agent", [True, False])
def test_a_command_without_the_agent(
    service: Service, blocking: milepost.Client, name: str, agent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why the history will have no rows, unless ``agent`` is off."""
    caplog.set_level("INFO", "milepost")
    command = [sys.executable, "-c", ROWS + "sys.exit(agent is not None)", service.url, name]
    if agent:
        command += ["--conf", f"{LISTENERS}=mine.Listener"]
    assert Supervisor(blocking, name, command, ONCE, agent=agent).run() == 0
    assert caplog.text.count("the history will not have the rows of the batches: the job has listeners") == agent


def test_settings_that_cannot_be_handed_over_are_a_failed_start(
    blocking: milepost.Client,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The command breaks what is read before each start, and where the file is written."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    command = [sys.executable, "-c", "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text('<'); sys.exit(3)"]
    command += [str(tmp_path / "hdfs-site.xml")]
    with pytest.raises(ValueError, match=r"hdfs-site\.xml"):
        Supervisor(blocking, name, command, Terms(restarts=2), authority="milepost").run()
    assert caplog.text.count("its settings cannot be handed over") == 2
    assert caplog.text.count("starting it again in 2 s") == 1
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        Supervisor(blocking, name, command, Terms(restarts=0)).run()


def test_tokens_come_from_the_first_address_whoever_leads(tmp_path: Path, name: str) -> None:
    (tmp_path / "tokens").write_text(f"somebody {'a1' * 32}")
    (tmp_path / "tokens").chmod(0o600)
    program = HANDED + "shutil.copy(file, sys.argv[1])"
    command = [sys.executable, "-c", program, str(tmp_path / "settings")]
    nobody = Port()
    with serving(tmp_path, "--token-file", str(tmp_path / "tokens")) as service:
        urls = [f"http://{nobody.address}", service.url]
        with milepost.Client(urls, token="a1" * 32) as client:
            assert Supervisor(client, name, command, ONCE).run() == 0
    settings = (tmp_path / "settings").read_text()
    assert f"oauth2.refresh.url=http://{nobody.address}/oauth2/token" in settings
    assert f"http-address.milepost.r1={service.url.removeprefix('http://')}" in settings


def test_handlers_of_signals_are_put_back(blocking: milepost.Client, name: str) -> None:
    def mine(*_: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGTERM, mine)
    try:
        Supervisor(blocking, name, [sys.executable, "-c", ""], ONCE).run()
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_pauses_double_up_to_the_longest_until_the_number_is_reached() -> None:
    restarts = Restarts(5, within=100.0, first=1.0, longest=6.0)
    assert [restarts.after_failure(float(now)) for now in range(7)] == [1.0, 2.0, 4.0, 6.0, 6.0, None, None]


def test_failures_of_long_ago_count_no_more() -> None:
    restarts = Restarts(2, within=100.0)
    assert [restarts.after_failure(now) for now in (0.0, 60.0, 99.0)] == [1.0, 2.0, None]
    assert restarts.after_failure(100.0) == 2.0
    assert restarts.count == 2
    assert restarts.after_failure(1000.0) == 1.0


def test_none_at_all() -> None:
    assert Restarts(0, within=100.0).after_failure(0.0) is None


def test_pauses_stay_numbers_however_often_it_fails() -> None:
    restarts = Restarts(5000, within=100.0)
    assert {restarts.after_failure(1.0) for _ in range(5000)} == {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0}
