"""The command ``milepost``, run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from milepost.cli import main
from tests.client.conftest import Service


@dataclass(frozen=True)
class Ended:
    """How the command ended, and what it said."""

    returncode: int
    stdout: bytes
    stderr: bytes


Run = Callable[..., Ended]
Said = Callable[..., str]


@pytest.fixture
def run(service: Service, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The command with these arguments."""
    monkeypatch.setenv("MILEPOST_URL", service.url)
    monkeypatch.setenv("NO_COLOR", "1")

    def command(*arguments: str) -> Ended:
        capfdbinary.readouterr()
        monkeypatch.setattr(sys, "argv", ["milepost", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfdbinary.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else int(code is not None), output.out, output.err)

    return command


@pytest.fixture
def said(run: Run) -> Said:
    """What a command says that succeeds."""

    def command(*arguments: str) -> str:
        ended = run(*arguments)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    return command
