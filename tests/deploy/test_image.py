"""What the image's recipe installs serves on its own, and what it says of itself is what clusters ask for.

The steps that matter are done here as the recipe does them: installing the built wheels, the command, the health check.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from testbed.ports import Port
from testbed.process import Process
from tests.deploy import dockerfile
from tests.deploy.helm import CHART, ROOT, Helm

pytestmark = pytest.mark.kubernetes

PLACE = "/opt/milepost"
BACKENDS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "backends").rglob("*.py")
)
WITHOUT_SITE = "-S"
"""Python without the packages of the environment that the tests run in."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands in /opt/milepost: made of the built wheels by the script that the recipe runs."""
    source = tmp_path_factory.mktemp("source")
    target = tmp_path_factory.mktemp("image") / "milepost"
    script = source / "deploy" / "install-wheels"
    script.parent.mkdir()
    script.write_bytes((ROOT / "deploy" / "install-wheels").read_bytes())
    script.chmod(0o755)
    run("make", "build", f"dist={source / 'dist'}")
    run(str(script), str(target), "--python", sys.executable, INSTALLER=f"{ROOT}/tools/uv pip")
    return target


def run(*command: str, **variables: str) -> None:
    subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, timeout=280, check=True)


def environment(installed: Path) -> Mapping[str, str]:
    """The image's environment, with the place that the wheels are in here."""
    image = {name: value.replace(PLACE, str(installed)) for name, value in dockerfile.environment().items()}
    return {"PATH": os.environ["PATH"], **image}


def python(command: list[str], port: int) -> list[str]:
    """A command of the image, run by this Python on another port."""
    assert command[0] == "python3"
    return [sys.executable, WITHOUT_SITE, *(part.replace("7070", str(port)) for part in command[1:])]


def is_well(port: int, environment: Mapping[str, str]) -> bool:
    command = python(list(dockerfile.health_check()), port)
    return subprocess.run(command, env=environment, timeout=60, capture_output=True, check=False).returncode == 0


def test_it_serves_from_the_wheels_alone_and_tells_its_health(installed: Path, tmp_path: Path) -> None:
    port = Port()
    variables = environment(installed)
    flags = ["--listen", port.address, "--pointers", f"embedded:{tmp_path}", "--blobs", f"file:{tmp_path}/blobs"]
    command = [*python(list(dockerfile.entry_point()), port.number), *flags]
    with Process("image", command, log_path=tmp_path / "log", directory=tmp_path, environment=variables) as server:
        assert not is_well(port.number, variables)
        server.start(lambda: is_well(port.number, variables))
        loaded = Path(f"/proc/{server.pid}/maps").read_text()
        assert f"{installed}/pydantic_core" in loaded
        assert "site-packages" not in loaded
        assert server.stop() == 0
        assert not is_well(port.number, variables)
    port.release()
    assert not list(tmp_path.rglob("__pycache__"))


def test_every_backend_is_in_it(installed: Path, tmp_path: Path) -> None:
    """Those that take long to load are imported only when they are asked for, so their absence would show late."""
    assert {"backends.zookeeper.pointers.store", "backends.kubernetes", "backends.s3", "backends.hdfs"} <= {*BACKENDS}
    modules = [*BACKENDS, "milepost"]
    code = "import sys, importlib; print(*(importlib.import_module(name).__file__ for name in sys.argv[1:]))"
    command = [sys.executable, WITHOUT_SITE, "-c", code, *modules]
    ended = subprocess.run(
        command, env=environment(installed), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert [Path(path).is_relative_to(installed) for path in ended.stdout.split()] == [True] * len(modules)


def test_no_pinned_version_is_left_out(installed: Path) -> None:
    names = {path.name.partition("-")[0].lower().replace("_", "-") for path in installed.glob("*.dist-info")}
    assert {"milepost", "milepost-server", "boto3", "fastapi", "kazoo", "kubernetes", "obstore"} <= names
    assert not {"pytest", "mypy", "pyspark", "matplotlib"} & names
    assert not (installed / "bin").exists()


def test_a_dist_with_two_versions_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "deploy" / "install-wheels"
    script.parent.mkdir()
    script.write_bytes((ROOT / "deploy" / "install-wheels").read_bytes())
    (tmp_path / "dist").mkdir()
    for name in ("milepost-0.1.0", "milepost-0.2.0", "milepost_server-0.2.0"):
        (tmp_path / "dist" / f"{name}-py3-none-any.whl").touch()
    ended = subprocess.run(
        ["bash", script, tmp_path / "target"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "one wheel of each distribution" in ended.stderr


def test_it_runs_as_the_user_that_the_chart_names(helm: Helm) -> None:
    user, _, group = dockerfile.last("USER").partition(":")
    context = helm.render(CHART / "ci" / "kubernetes-s3-values.yaml").pod["spec"]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))


def test_one_process_that_gets_the_signals(helm: Helm) -> None:
    """No shell stands before it, which would keep SIGTERM to itself."""
    assert dockerfile.entry_point() == ["python3", "-m", "service"]
    names = {name for name, _ in dockerfile.stages()[-1]}
    assert not names & {"CMD", "VOLUME", "ADD", "SHELL"}
    container = helm.render(CHART / "ci" / "kubernetes-s3-values.yaml").container
    assert not {"command", "args"} & set(container)


def test_what_is_copied_is_there_and_let_through_to_the_build() -> None:
    copied = [rest.split() for stage in dockerfile.stages() for name, rest in stage if name == "COPY"]
    sources = [source for words in copied if not words[0].startswith("--from") for source in words[:-1]]
    assert sources == ["dist", "deploy/install-wheels"]
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    for source in sources:
        assert any(re.match(rf"!{source}(/|$)", line) for line in ignored), source


def test_the_base_is_a_python_that_the_server_runs_on() -> None:
    assert {rest.split()[0] for stage in dockerfile.stages() for name, rest in stage if name == "FROM"} == {
        "python:${PYTHON}-slim"
    }
    default = re.search(r"^ARG PYTHON=3\.(\d+)$", dockerfile.DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert default is not None
    assert 11 <= int(default[1]) <= 13
