"""``milepost run`` over real Spark: begun, looked at, frozen and killed, with all that it started."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import httpx

import milepost
from testbed.server import ServerProcess
from tests.docs.blocks import ROOT, blocks_of
from tests.spark.under_test.process import DEADLINE_SECONDS

_MILEPOST = [sys.executable, "-c", "from milepost.cli import main; main()"]
_STARTED = re.compile(r"leading job \S+ under epoch (\d+), started process (\d+)")


class Supervised:
    """A supervisor of ``command``, ended with the block, and its command with it."""

    def __init__(
        self, url: str, job: str, log: Path, options: Sequence[str], command: Sequence[str], **environment: str
    ) -> None:
        self._log = log
        self._arguments = [*_MILEPOST, "--url", url, "run", "--job", job, *options, "--", *command]
        self._environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            **environment,
        }

    @classmethod
    def pasted(cls, page: str, replaced: Mapping[str, Sequence[str]], log: Path) -> Supervised:
        """The command that a page shows, with words of ours for some of its own. Each of these must be there."""
        (text,) = (
            block.text
            for block in blocks_of(ROOT / page)
            if block.language == "sh" and " run --job flights" in block.text
        )
        words = [replaced.get(word, [word]) for word in shlex.split(text.replace("\\\n", " "))]
        assert replaced.keys() <= {*shlex.split(text.replace("\\\n", " "))}, text
        made = cls("", "", log, [], [])
        made._arguments = [word for each in words for word in each]
        return made

    def __enter__(self) -> Supervised:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._arguments, env=self._environment, stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_SECONDS)
        for _, pid in self.starts():
            with suppress(ProcessLookupError):  # it has ended, as it should
                os.killpg(pid, signal.SIGKILL)

    def log(self) -> str:
        """What supervisor and command have said."""
        return self._log.read_text(errors="replace")

    def starts(self) -> list[tuple[int, int]]:
        """Epoch and process of each start."""
        return [(int(epoch), int(pid)) for epoch, pid in _STARTED.findall(self.log())]

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds; fails if the supervisor ends before, or it takes too long."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert self._process.poll() is None, f"it ended:\n{self.log()[-6000:]}"
            assert time.monotonic() < deadline, f"it did not come about:\n{self.log()[-6000:]}"
            time.sleep(0.03)

    def says(self, text: str) -> None:
        """Wait until supervisor or command say something."""
        self.until(lambda: text in self.log())

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor alone."""
        self._process.send_signal(number)

    def send_command(self, number: signal.Signals) -> None:
        """Send a signal to all processes of its command."""
        os.killpg(self.starts()[-1][1], number)

    @property
    def running(self) -> bool:
        """Whether the supervisor has not ended yet."""
        return self._process.poll() is None

    def ended(self) -> int:
        """Wait for the end of the supervisor; its exit status."""
        return self._process.wait(DEADLINE_SECONDS)


def on_the_page(url: str, job: str, command: Sequence[str]) -> dict[str, Sequence[str]]:
    """Words for those of the pages: the service, the job, and a command of `spark_submit`, whose class is in a jar."""
    at = command.index("--class")
    return {
        "milepost": _MILEPOST,
        "flights": [job],
        "spark-submit": command[:at],
        "Flights": [command[at + 1]],
        "flights.jar": command[at + 2 :],
        "http://127.0.0.1:7070": [url],
    }


def spark_submit(java_options: str, *arguments: str, settings: Mapping[str, str] | None = None) -> list[str]:
    """The command of a small Spark on this machine, with options as users give them."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        **(settings or {}),
    }
    master = chosen.pop("spark.master", "local[2]")
    conf = [part for key, value in chosen.items() for part in ("--conf", f"{key}={value}")]
    program = str(spark_home() / "bin" / "spark-submit")
    return [program, "--master", master, "--driver-java-options", java_options, *conf, *arguments]


def spark_home() -> Path:
    """Where Spark is: in the package of PySpark."""
    import pyspark

    return Path(pyspark.__file__).parent


def input_rows(
    service: ServerProcess, job: str, directory: str, until: int, killed: int | None = None
) -> list[int | None]:
    """How many rows each batch of the query in a directory has read, up to the batch ``until``, by the history of the
    job. The last batch of the epoch ``killed`` is left out: a driver that was killed may not have reported it.
    """
    with milepost.Client(service.url) as client:
        found = {each.batch: each for each in client.job_history(job) if each.directory == directory}
    of_killed = [batch for batch, entry in found.items() if batch is not None and entry.epoch == killed]
    return [found[batch].input_rows for batch in range(until + 1) if batch not in of_killed[:1]]


def names(service: ServerProcess, path: str) -> list[str]:
    """What is in a directory of a job's tree."""
    answer = httpx.get(f"{service.url}/webhdfs/v1/jobs/{path}", params={"op": "LISTSTATUS"}, timeout=60.0)
    return [status["pathSuffix"] for status in answer.json()["FileStatuses"]["FileStatus"]]
