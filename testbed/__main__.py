"""``python -m testbed up`` starts the whole set and leaves it running; ``down`` ends it.

A file beside the logs, the note, says which processes were started and how: their ids, when each began, and their
commands. So ``down`` never ends another process that got the same id later, and a second ``up`` starts what has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from testbed.lifetimes import began
from testbed.process import Process, ProcessFailed
from testbed.replicated import SESSION_SECONDS, ReplicatedTestbed

_GRACE_SECONDS = 10.0
_NOTE = "running.json"


@dataclass(frozen=True)
class Entry:
    """One process in the note.

    It ``began`` at so many clock ticks since the boot, with ``command`` and with the ``variables`` that this process
    has not. If it is to be ended ``gently``, it gets SIGTERM and time, else SIGKILL at once. ``leftovers`` are files to
    delete after its end.
    """

    name: str
    pid: int
    began: int | None
    command: Sequence[str]
    directory: str | None
    variables: Mapping[str, str]
    log: str
    gently: bool = False
    leftovers: Sequence[str] = ()

    @classmethod
    def of(cls, process: Process, *, gently: bool = False, leftovers: Sequence[str] = ()) -> Entry:
        """Make the entry of a running process."""
        return cls(
            process.name,
            process.pid,
            began(process.pid),
            process.command,
            str(process.working_directory) if process.working_directory else None,
            {name: value for name, value in process.environment.items() if os.environ.get(name) != value},
            str(process.log_path),
            gently,
            leftovers,
        )

    @property
    def runs(self) -> bool:
        """Return whether the process runs."""
        return began(self.pid) == self.began

    def again(self) -> Entry:
        """Start the command once more, and return the entry of the new process."""
        process = Process(
            self.name,
            self.command,
            log_path=Path(self.log),
            directory=Path(self.directory) if self.directory else None,
            environment={**os.environ, **self.variables},
            detached=True,
        ).start()
        return replace(self, pid=process.pid, began=began(process.pid))

    def signal(self, number: signal.Signals) -> None:
        """Send any signal, unless the process is gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def main() -> int:
    """Run the command that the command line names, and return the exit status."""
    flags = argparse.ArgumentParser(prog="python -m testbed", description=__doc__)
    flags.add_argument("command", choices=["up", "down"])
    flags.add_argument("--directory", type=Path, default=Path("milepost-up"), metavar="DIR", help="for data and logs")
    options = flags.parse_args()
    directory = options.directory.resolve()
    return up(directory) if options.command == "up" else down(directory)


def up(directory: Path) -> int:
    """Start three ZooKeepers, S3 and three replicas, and say how to reach them; or start what has ended of them."""
    if _running(directory):
        return _bring_back(directory)
    shutil.rmtree(directory, ignore_errors=True)
    deployment = ReplicatedTestbed(directory, detached=True)
    try:
        deployment.start()
    except ProcessFailed as failure:
        deployment.end()
        print(f"cannot start it: {failure}", file=sys.stderr)
        return 1
    _note(directory, _entries(deployment))
    print(_instructions(deployment, directory))
    return 0


def _bring_back(directory: Path) -> int:
    """Start what has ended of a set of which something runs."""
    noted = _noted(directory)
    try:
        entries = [entry if entry.runs else entry.again() for entry in noted]
    except ProcessFailed as failure:
        print(f"cannot bring it back: {failure}", file=sys.stderr)
        return 1
    _note(directory, entries)
    started = ", ".join(new.name for old, new in zip(noted, entries, strict=True) if new is not old)
    print(f"it is up already ({directory}), {f'and started again: {started}' if started else 'and all of it runs'}")
    return 0


def down(directory: Path) -> int:
    """End what ``up`` started: the replicas by SIGTERM, and then everything else by SIGKILL. Data and logs stay."""
    running = _running(directory)
    for entry in running:
        if entry.gently:
            entry.signal(signal.SIGTERM)
            entry.signal(signal.SIGCONT)
    end = time.monotonic() + _GRACE_SECONDS
    while any(entry.gently for entry in _running(directory)) and time.monotonic() < end:
        time.sleep(0.05)
    for entry in _running(directory):
        entry.signal(signal.SIGKILL)
    for entry in _noted(directory):
        for left in entry.leftovers:
            Path(left).unlink(missing_ok=True)
    (directory / _NOTE).unlink(missing_ok=True)
    names = ", ".join(entry.name for entry in running)
    print(f"ended: {names}" if names else f"nothing runs that was started in {directory}")
    return 0


def _entries(deployment: ReplicatedTestbed) -> Sequence[Entry]:
    return [
        *(Entry.of(replica, gently=True) for replica in deployment.replicas),
        Entry.of(deployment.s3.process, leftovers=[str(left) for left in deployment.s3.leftovers]),
        *(Entry.of(member) for member in deployment.zookeepers.members),
    ]


def _running(directory: Path) -> Sequence[Entry]:
    """Return the processes that were started in ``directory`` and still run."""
    return [entry for entry in _noted(directory) if entry.runs]


def _note(directory: Path, entries: Sequence[Entry]) -> None:
    (directory / _NOTE).write_text(json.dumps([asdict(entry) for entry in entries], indent=1))


def _noted(directory: Path) -> Sequence[Entry]:
    try:
        return [Entry(**entry) for entry in json.loads((directory / _NOTE).read_text())]
    except FileNotFoundError:
        return []


def _instructions(deployment: ReplicatedTestbed, directory: Path) -> str:
    first = deployment.urls[0]
    leader = deployment.leader().url
    replicas = "\n".join(f"  replica      {url}{'   (leads)' if url == leader else ''}" for url in deployment.urls)
    return f"""\
It is up:

{replicas}
  ZooKeeper    {deployment.zookeepers.hosts}
  S3           {deployment.s3.endpoint_url}
  data, logs   {directory}

Try it; any replica will do, for it sends you on to the leader:

  curl -L {first}/v1/status
  curl -L -X POST {first}/v1/sessions -H 'Content-Type: application/json' \\
       -d '{{"session": "me", "ttl": 600}}'
  curl -L -X POST {first}/v1/stores/flights/handles/latest -H 'Milepost-Session: me' --data-binary 'state'
  curl -L {first}/v1/stores/flights/handles/latest/state
  open {first}/docs

  kill -9 {deployment.leader().pid}     # the leader; another one leads after {SESSION_SECONDS:g} seconds
  make up              # starts again what was killed

The command is .venv/bin/milepost, with MILEPOST_URL={first}.
End it with: make down
"""


if __name__ == "__main__":
    sys.exit(main())
