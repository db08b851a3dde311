"""``python -m parts up`` starts the whole set and leaves it running; ``down`` ends it.

A note beside the logs says which processes those are: their ids, and when each began, so that ``down`` never ends a
process that only got the same id later.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from parts.deployment import SESSION_SECONDS, Deployment
from parts.process import Process, ProcessFailed

_GRACE_SECONDS = 10.0
_NOTE = "running.json"


def main() -> int:
    """The entry point; the exit status."""
    flags = argparse.ArgumentParser(prog="python -m parts", description=__doc__)
    flags.add_argument("command", choices=["up", "down"])
    flags.add_argument("--directory", type=Path, default=Path("milepost-up"), metavar="DIR", help="for data and logs")
    options = flags.parse_args()
    directory = options.directory.resolve()
    return up(directory) if options.command == "up" else down(directory)


def up(directory: Path) -> int:
    """Start three ZooKeepers, S3 and three replicas, and say how to reach them."""
    if _noted(directory):
        print(f"it is up already ({directory}); end it with: make down")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    deployment = Deployment(directory, detached=True)
    try:
        deployment.start()
    except ProcessFailed as failure:
        deployment.end()
        print(f"cannot start it: {failure}", file=sys.stderr)
        return 1
    (directory / _NOTE).write_text(json.dumps([_entry(process) for process in deployment.processes], indent=1))
    print(_told(deployment, directory))
    return 0


def down(directory: Path) -> int:
    """End what ``up`` started: first in order, then by force. Its data and logs stay until the next ``up``."""
    noted = _noted(directory)
    for _, pid in noted:
        for number in (signal.SIGTERM, signal.SIGCONT):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    end = time.monotonic() + _GRACE_SECONDS
    while (left := _noted(directory)) and time.monotonic() < end:
        time.sleep(0.05)
    for _, pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    (directory / _NOTE).unlink(missing_ok=True)
    print(
        f"ended: {', '.join(name for name, _ in noted)}" if noted else f"nothing runs that was started in {directory}"
    )
    return 0


def _entry(process: Process) -> dict[str, object]:
    return {"name": process.name, "pid": process.pid, "began": _began(process.pid)}


def _noted(directory: Path) -> Sequence[tuple[str, int]]:
    """Names and process ids of what was started there and still runs."""
    try:
        entries = json.loads((directory / _NOTE).read_text())
    except FileNotFoundError:
        return []
    return [(entry["name"], entry["pid"]) for entry in entries if _began(entry["pid"]) == entry["began"]]


def _began(pid: int) -> int | None:
    """When the process began, in clock ticks since the boot (see proc(5)); None for one that is gone."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] == "Z" else int(after_name[19])


def _told(deployment: Deployment, directory: Path) -> str:
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

End it with: make down
"""


if __name__ == "__main__":
    sys.exit(main())
