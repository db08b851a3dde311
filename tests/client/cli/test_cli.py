"""The command as a whole: its version, its completion, and what it needs."""

from __future__ import annotations

import subprocess
import sys

import milepost
from tests.client.cli.conftest import MAIN, Said, ended, started
from tests.client.conftest import Service


def test_it_runs_as_a_process(service: Service) -> None:
    end = ended(started(service.url, "status"))
    assert (end.returncode, end.stderr) == (0, b"")
    assert service.url in end.stdout.decode()


def test_the_version(said: Said) -> None:
    assert said("--version") == f"milepost {milepost.__version__}\n"


def test_shells_complete_commands_and_options(said: Said) -> None:
    def completed(line: str) -> list[str]:
        count = len(line.split()) - 1
        asked = {"_MILEPOST_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(count)}
        program = f"import sys; sys.argv[0] = 'milepost'; {MAIN}"
        end = ended(started("http://127.0.0.1:1", main=program, **asked))
        assert end.stderr == b""
        return end.stdout.decode().split()

    assert completed("milepost l") == ["ls", "lock"]
    assert completed("milepost files cl") == ["clone"]
    assert completed("milepost put --cam") == ["--campaign"]
    assert "--install-completion" in said("--help")


def test_without_its_extra_it_says_what_to_install(service: Service) -> None:
    for needed in ("typer", "yaml"):
        without = f"import sys; sys.modules[{needed!r}] = None\n{MAIN}"
        end = ended(started(service.url, "status", main=without))
        assert end.returncode == 1
        assert f"needs {needed}: install the SDK with its extra cli" in end.stderr.decode()


def test_the_sdk_itself_needs_no_typer() -> None:
    program = "import sys, milepost, milepost.aio, milepost.cli; assert not {'typer', 'yaml'} & set(sys.modules)"
    subprocess.run([sys.executable, "-W", "error", "-c", program], timeout=60, check=True)


def test_an_unexpected_error_shows_no_token() -> None:
    """What is passed to a function may be the token; the trace of a mistake must not show it."""
    broken = f"import milepost.cli.show; milepost.cli.show.Options.client_of = None\n{MAIN}"
    end = ended(started("http://127.0.0.1:1", "--token", "a-secret", "status", main=broken))
    assert end.returncode == 1
    assert b"TypeError" in end.stderr
    assert b"a-secret" not in end.stdout + end.stderr
