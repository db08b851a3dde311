"""Stands in for systemctl(1) where no systemd runs: it starts and stops the one unit as the unit's own lines say.

It knows the commands of docs/install.md, and reads what decides whether the server can run: the command, its user, the
file of its environment, and its directory. What systemd does beside that, such as the sandbox, is looked at by
``systemd-analyze`` alone. It runs in namespaces of its own, in which ``/run/milepost-unit`` is where it keeps its pid.

Run as ``python systemctl.py`` with systemctl's own arguments.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

UNIT = Path("/etc/systemd/system/milepost.service")
STATE = Path("/run/milepost-unit")


def main() -> None:
    """Carry out one command for the unit ``milepost``."""
    match sys.argv[1:]:
        case ["daemon-reload"]:
            pass
        case ["enable", "--now", "milepost"]:
            start()
        case ["restart", "milepost"]:
            stop()
            start()
        case ["disable", "--now", "milepost"]:
            stop()
        case other:
            sys.exit(f"systemctl: this one does not know {other}")


def settings() -> dict[str, str]:
    """The lines of the unit; those that stand there more than once do not matter here."""
    text = UNIT.read_text().replace("%N", UNIT.stem)
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def start() -> None:
    """Start the command as the unit's user, who has the state directory and nothing else."""
    unit = settings()
    home = Path("/var/lib") / unit["StateDirectory"]
    home.mkdir(mode=int(unit["StateDirectoryMode"], 8), exist_ok=True)
    subprocess.run(["chown", f"{unit['User']}:{unit['Group']}", home], check=True)
    lines = Path(unit["EnvironmentFile"]).read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    user = ["setpriv", f"--reuid={unit['User']}", f"--regid={unit['Group']}", "--init-groups", "--no-new-privs"]
    bounds = ["--bounding-set=-all", "--inh-caps=-all"]
    with Path("/run/milepost-log").open("ab") as log:
        started = subprocess.Popen(
            [*user, *bounds, "--", *shlex.split(unit["ExecStart"])],
            cwd=unit["WorkingDirectory"],
            env={"PATH": os.environ["PATH"], **variables},
            umask=int(unit["UMask"], 8),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    STATE.write_text(f"{started.pid} {unit['TimeoutStopSec']}")


def stop() -> None:
    """Send SIGTERM and wait for the end, for as long as systemd would. Exits with 1 if it does not come."""
    pid, seconds = map(int, STATE.read_text().split())
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + seconds
    while lives(pid):
        if time.monotonic() > end:
            sys.exit("systemctl: the server did not end within TimeoutStopSec")
        time.sleep(0.05)
    STATE.unlink()


def lives(pid: int) -> bool:
    """Whether a process is there that is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    main()
