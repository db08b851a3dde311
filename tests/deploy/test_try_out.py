"""What `helm test` runs does find out whether a deployment works."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.deploy.helm import CHART, Helm

pytestmark = pytest.mark.kubernetes

SCRIPT = CHART / "files" / "try_out.py"
TOKENS = "reporter 0123456789abcdef read-only  # may not write\ndriver fedcba9876543210\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("tried")
    tokens = directory / "tokens"
    tokens.write_text(TOKENS)
    with ServerProcess(directory, "--token-file", str(tokens)) as process:
        yield process.start()


def tried(command: list[str], tokens: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "MILEPOST_TOKEN_FILE": str(tokens), **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_it_works_where_the_service_works(server: ServerProcess, helm: Helm, tmp_path: Path) -> None:
    """The text is the one that stands in the Pod, after all that templates do to it."""
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS)
    command = helm.render(CHART / "ci" / "kubernetes-s3-values.yaml").one("Pod")["spec"]["containers"][0]["command"]
    assert command[0] == "python3"
    ended = tried(command[1:], tokens, MILEPOST_URL=server.url, MILEPOST_LEADER_URL=server.url)
    assert ended.returncode == 0, ended.stderr
    assert "wrote, replaced, read and removed a state" in ended.stdout
    assert f"{server.url} leads to the leader" in ended.stdout


def test_it_fails_where_the_token_is_another(server: ServerProcess, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("driver 0000000000000000\n")
    ended = tried([str(SCRIPT)], tokens, MILEPOST_URL=server.url)
    assert ended.returncode != 0
    assert "unauthenticated" in ended.stderr.lower()


def test_it_fails_where_the_leaders_service_leads_nowhere(server: ServerProcess, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS)
    ended = tried([str(SCRIPT)], tokens, MILEPOST_URL=server.url, MILEPOST_LEADER_URL=f"{server.url}/nowhere")
    assert ended.returncode != 0
    assert "404" in ended.stderr


def test_it_fails_without_a_token_that_may_write() -> None:
    writing_token = runpy.run_path(str(SCRIPT))["writing_token"]
    assert writing_token(TOKENS) == "fedcba9876543210"
    with pytest.raises(SystemExit, match="no token that may write"):
        writing_token("reporter 0123456789abcdef read-only\n")
