"""Clients that are generated from the OpenAPI page, for Go and for Python, make real calls against a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.support.commands import output_of

pytestmark = pytest.mark.later

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / "tools" / "openapi"
CALLS = Path(__file__).with_name("generated")
TOKEN = "the-token-of-generated-clients"
SECONDS = 280


@pytest.fixture(scope="module")
def generators() -> Path:
    """Where the generators are. Building them takes minutes, so that is left to who runs these tests."""
    found = subprocess.run([TOOLS / "build", "--find"], capture_output=True, text=True, timeout=60, check=False)
    if found.returncode == 3:
        pytest.skip(found.stderr.strip())
    assert found.returncode == 0, found.stderr
    return Path(found.stdout.strip())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that asks for a token, as the page says that one may."""
    directory = tmp_path_factory.mktemp("guarded")
    tokens = directory / "tokens"
    tokens.write_text(f"generated {TOKEN}\n")
    tokens.chmod(0o600)
    with ServerProcess(directory, "--token-file", str(tokens)) as process:
        yield process.start()


@pytest.fixture
def page(server: ServerProcess, tmp_path: Path) -> Path:
    """The page, as a file."""
    path = tmp_path / "openapi.json"
    with urllib.request.urlopen(server.url + "/openapi.json", timeout=60) as answer:
        path.write_bytes(answer.read())
    return path


def run(*command: str | Path, directory: Path, **environment: str) -> str:
    """What a command printed. It has to end well, and to warn of nothing."""
    variables = {**os.environ, **environment}
    return output_of(command, directory=directory, seconds=SECONDS, environment=variables, warns=False)


def test_one_for_go(generators: Path, server: ServerProcess, page: Path, tmp_path: Path) -> None:
    for file in (TOOLS / "go.mod", TOOLS / "go.sum", CALLS / "main.go"):
        shutil.copy(file, tmp_path)
    (tmp_path / "api").mkdir()
    made = ["-generate", "types,client", "-package", "api", "-o", "api/client.gen.go"]
    run(generators / "oapi-codegen", *made, page, directory=tmp_path)
    run("go", "build", "-trimpath", "-buildvcs=false", "-o", "calls", ".", directory=tmp_path, CGO_ENABLED="0")
    result = run(tmp_path / "calls", server.url, TOKEN, "of-go", directory=tmp_path)
    assert result == "every call of the Go client was answered\n"


def test_one_for_python(generators: Path, server: ServerProcess, page: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("post_hooks: []\npackage_name_override: milepost_api\n")
    made = ["--meta", "none", "--output-path", "milepost_api", "--config", "config.yaml", "--fail-on-warning"]
    python = generators / "python" / "bin"
    run(python / "openapi-python-client", "generate", "--path", page, *made, directory=tmp_path)
    calls: list[str | Path] = [CALLS / "calls.py", server.url, TOKEN, "of-python"]
    result = run(python / "python", *calls, directory=tmp_path, PYTHONPATH=str(tmp_path))
    assert result == "every call of the Python client was answered\n"
