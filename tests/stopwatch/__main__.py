"""Walk each way to a first handle, print the seconds that it took, and end with 1 if one is above its limit.

The way by the chart is in tests/system/node/test_release.py, where there is a cluster.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from testbed.ports import Port
from testbed.server import ROOT

USUAL: Final = "http://127.0.0.1:7070"
"""The address that the pages name."""
DEADLINE_SECONDS: Final = 600.0
"""A way that takes so long has failed, whatever its limit."""


class Stopwatch:
    """Adds up the seconds of its blocks; what lies between them comes before the clock or is not counted."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the seconds of the block."""
        began = time.monotonic()
        yield
        self.seconds += time.monotonic() - began


def run(command: Sequence[str | Path], directory: Path, given: str | None = None) -> None:
    """Run a command that has to end well; what it prints is shown if it does not."""
    ended = subprocess.run(
        command,
        cwd=directory,
        env=variables(),
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    if ended.returncode != 0:
        sys.exit(f"stopwatch: {' '.join(map(str, command))} ended with {ended.returncode}\n{ended.stdout}")


def variables() -> Mapping[str, str]:
    """The variables of a newcomer, who has set nothing for Milepost yet."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("MILEPOST_", "MAKE", "VIRTUAL_"))}


@contextmanager
def serving(command: Sequence[str | Path], directory: Path, port: Port) -> Iterator[None]:
    """Run a server within the block, which begins when it leads. With it ends whatever it has started."""
    with (directory / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=directory,
            env=variables(),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + DEADLINE_SECONDS
        while not leads(port):
            if server.poll() is not None or time.monotonic() > end:
                sys.exit(f"stopwatch: the server does not lead\n{(directory / 'server.log').read_text()}")
            time.sleep(0.05)
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def leads(port: Port) -> bool:
    """Whether a server there leads."""
    try:
        with urllib.request.urlopen(f"http://{port.address}/leader", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def pasted(page: Path, language: str, word: str, port: Port) -> str:
    """The first block of a language on a page that has this word in it, with the address of our server."""
    found = [block for block in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL) if word in block]
    if not found or USUAL not in found[0]:
        sys.exit(f"stopwatch: {page} shows nobody how to add a first handle with {word!r} at {USUAL}")
    return str(found[0]).replace(USUAL, f"http://{port.address}")


def from_a_clone_by_curl(directory: Path, watch: Stopwatch) -> None:
    """Clone the repository, start the server and paste the README's lines; what `make setup` fetches is not counted."""
    clone = directory / "milepost"
    with watch.counting():
        run(["git", "clone", "--quiet", ROOT, clone], directory)
    run(["make", "setup"], clone)
    port = Port()
    with watch.counting(), serving(["make", "serve", f"ARGS=--listen {port.address}"], clone, port):
        lines = pasted(clone / "README.md", "sh", "curl", port)
        run(["bash", "-euo", "pipefail", "-s"], directory, lines)


def from_wheels_by_the_sdk(directory: Path, watch: Stopwatch) -> None:
    """Install the built server, start it and paste the SDK's first lines; the build is not counted."""
    dist, place = directory / "dist", directory / "environment"
    run(["make", "build", f"dist={dist}"], ROOT)
    uv, python = ROOT / "tools" / "uv", place / "bin" / "python"
    port = Port()
    with watch.counting():
        run([uv, "venv", "--quiet", "--python", sys.executable, place], directory)
        run([uv, "pip", "install", "--quiet", "--python", python, "--find-links", dist, "milepost-server"], directory)
        with serving([place / "bin" / "milepost-server", "--listen", port.address], directory, port):
            run([python, "-"], directory, pasted(ROOT / "client" / "README.md", "python", "milepost.Client", port))


WAYS: Final = [
    ("git clone, make serve, the README's lines of curl", 60.0, from_a_clone_by_curl),
    ("wheels into a fresh environment, the SDK's first lines", 30.0, from_wheels_by_the_sdk),
]


def main() -> int:
    """Walk all ways, one after the other."""
    late = 0
    for name, limit, walk in WAYS:
        watch = Stopwatch()
        with tempfile.TemporaryDirectory(prefix="milepost-stopwatch-") as directory:
            walk(Path(directory), watch)
        kept = watch.seconds <= limit
        late += not kept
        print(f"{name}: {watch.seconds:.1f} s of {limit:g} s{'' if kept else ', TOO LATE'}", flush=True)
    print(f"stopwatch: {len(WAYS) - late} passed, {late} failed")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
