"""The command ``milepost``, run in this process, or as the process of its own that its users run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.cli import main
from tests.client.conftest import Service

MAIN = "from milepost.cli import main; main()"
STATE = b"\x00state\xff"


@dataclass(frozen=True)
class Ended:
    """How the command ended, and what it said."""

    returncode: int
    stdout: bytes
    stderr: bytes


Run = Callable[..., Ended]
Said = Callable[..., str]


@pytest.fixture(autouse=True)
def config_file(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of contexts, which is not that of whoever runs the tests, and not there yet."""
    for name in ("MILEPOST_CONTEXT", "MILEPOST_URL", "MILEPOST_TOKEN", "MILEPOST_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path_factory.mktemp("config") / "milepost" / "config.yaml"
    monkeypatch.setenv("MILEPOST_CONFIG", str(path))
    return path


@pytest.fixture
def run(service: Service, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The command with these arguments."""
    monkeypatch.setenv("MILEPOST_URL", service.url)
    monkeypatch.setenv("NO_COLOR", "1")

    def command(*arguments: str, stdin: bytes = b"") -> Ended:
        capfdbinary.readouterr()
        monkeypatch.setattr(sys, "argv", ["milepost", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfdbinary.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else int(code is not None), output.out, output.err)

    return command


@pytest.fixture
def said(run: Run) -> Said:
    """What a command says that succeeds."""

    def command(*arguments: str, stdin: bytes = b"") -> str:
        ended = run(*arguments, stdin=stdin)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    return command


@pytest.fixture
def session(blocking: milepost.Client, name: str) -> Iterator[milepost.Session]:
    """A driver's session: it leads the store, and holds the lock on ``latest`` there."""
    with blocking.session(holder="cli-test") as session:
        session.store(name).campaign()
        session.store(name).under(1).add_and_lock("latest", STATE, labels={"batch": "7"})
        yield session


def started(url: str, *arguments: str, main: str = MAIN, **environment: str) -> subprocess.Popen[bytes]:
    """The command as its users run it, with pipes; each takes the time to import everything."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", main, *arguments],
        env={**os.environ, "MILEPOST_URL": url, "NO_COLOR": "1", **environment},
        **pipes,
    )


def ended(process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Ended:
    """The end of a command that is given this to read; None: what was given before."""
    try:
        out, err = process.communicate(stdin, timeout=60)
    finally:
        process.kill()
    return Ended(process.returncode, out, err)
