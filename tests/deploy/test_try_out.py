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
from tests.support.servers.certificates import Certificates

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


def test_it_tries_the_job_of_one_cell_and_asks_all(server: ServerProcess, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS)
    listed = tmp_path / "cells"
    flags = ("--token-file", str(tokens), "--cells", "cell-0,cell-1")
    with (
        ServerProcess(tmp_path / "0", *flags, "--cell", "cell-0") as first,
        ServerProcess(tmp_path / "1", *flags, "--cell", "cell-1") as second,
    ):
        listed.write_text(f"cell-0={first.start().url}\ncell-1={second.start().url}\n")
        ended = tried([str(SCRIPT)], tokens, MILEPOST_URL=f"@{listed}")
        assert ended.returncode == 0, ended.stderr
        assert f"wrote, replaced, read and removed a state at @{listed}" in ended.stdout
        for name, cell in (("cell-0", first), ("cell-1", second)):
            assert f"{cell.url} leads the cell {name}\n" in ended.stdout
        listed.write_text(f"cell-0={first.url}\ncell-1={server.url}\n")
        ended = tried([str(SCRIPT)], tokens, MILEPOST_URL=f"@{listed}")
    assert ended.returncode != 0
    assert "lead to a deployment that is no cell" in ended.stderr


def test_it_works_over_tls_with_a_certificate_and_the_token_of_an_account(tmp_path: Path) -> None:
    """The token of an account stands in its file alone, and has no name before it."""
    made = Certificates(tmp_path)
    tokens, account = tmp_path / "tokens", tmp_path / "token"
    tokens.write_text(TOKENS)
    account.write_text("fedcba9876543210\n")
    hashed = tmp_path / "hashed"
    hashed.write_text("driver sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n")
    environment = {"MILEPOST_CA": str(made.ca), "MILEPOST_ACCOUNT_TOKEN_FILE": str(account)}
    shown = {"MILEPOST_CERT": str(made.certificate), "MILEPOST_KEY": str(made.key)}
    flags = (*made.demanding, "--token-file", str(tokens))
    with ServerProcess(tmp_path, *flags, tls=made.trusting(shown=True)) as server:
        server.flags = ("--advertise", server.url, *flags)
        server.start()
        addresses = {"MILEPOST_URL": server.url, "MILEPOST_LEADER_URL": server.url}
        ended = tried([str(SCRIPT)], hashed, **environment, **shown, **addresses)
        assert ended.returncode == 0, ended.stderr
        assert f"{server.url} leads to the leader" in ended.stdout
        refused = tried([str(SCRIPT)], hashed, **environment, **addresses)
    assert refused.returncode != 0
    assert "certificate" in refused.stderr


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


def test_a_token_that_may_write_is_found() -> None:
    writing_token = runpy.run_path(str(SCRIPT))["writing_token"]
    assert writing_token(TOKENS) == "fedcba9876543210"
    assert writing_token("reporter 0123456789abcdef read-only\n") is None


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ops 0123456789abcdef admin", True),
        ("one 0123456789abcdef reader=* writer=flights,helm-*", True),
        ("one 0123456789abcdef writer=*", True),
        ("one 0123456789abcdef writer=helm", False),
        ("one 0123456789abcdef writer=helm.test reader=helm-test", False),
        ("one sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", False),
        ("serviceaccount:spark/flights writer=helm-test", False),
        ("# one 0123456789abcdef", False),
        ("", False),
    ],
)
def test_a_token_is_shown_if_it_can_be_and_may_write_the_store(line: str, shown: bool) -> None:
    found = runpy.run_path(str(SCRIPT))["writing_token"](f"{line}\n")
    assert found == ("0123456789abcdef" if shown else None)


def test_it_says_so_where_there_is_no_token_to_show(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("reporter 0123456789abcdef read-only\n")
    ended = tried([str(SCRIPT)], tokens, MILEPOST_URL="http://127.0.0.1:1")
    assert ended.returncode != 0
    assert "no token that may write the store helm-test" in ended.stderr
