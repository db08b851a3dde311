"""What the image's recipe installs serves on its own, and what it says of itself is what clusters ask for.

The steps that matter are done here as the recipe does them: installing the built wheels, the command, the health check.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import tomllib

import milepost
from testbed.ports import Port
from testbed.process import Process
from tests.deploy import dockerfile
from tests.deploy.helm import CHART, ROOT, Helm
from tests.docs.blocks import blocks_of
from tests.docs.checkout import variables

pytestmark = pytest.mark.kubernetes

PLACE = "/opt/milepost"
BACKENDS = sorted(
    ".".join(path.relative_to(ROOT / "backends").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "backends" / "milepost_backends").rglob("*.py")
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
    assert not list(tmp_path.rglob("__pycache__"))


def test_every_backend_is_in_it(installed: Path, tmp_path: Path) -> None:
    """Those that take long to load are imported only when they are asked for, so their absence would show late."""
    assert {
        "milepost_backends.zookeeper.pointers.store",
        "milepost_backends.kubernetes",
        "milepost_backends.s3",
        "milepost_backends.hdfs",
    } <= {*BACKENDS}
    modules = [*BACKENDS, "milepost"]
    code = "import sys, importlib; print(*(importlib.import_module(name).__file__ for name in sys.argv[1:]))"
    command = [sys.executable, WITHOUT_SITE, "-c", code, *modules]
    ended = subprocess.run(
        command, env=environment(installed), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert [Path(path).is_relative_to(installed) for path in ended.stdout.split()] == [True] * len(modules)


def test_no_pinned_version_is_left_out(installed: Path) -> None:
    names = {path.name.partition("-")[0].lower().replace("_", "-") for path in installed.glob("*.dist-info")}
    assert {
        "milepost",
        "milepost-server",
        "milepost-server-core",
        "boto3",
        "fastapi",
        "kazoo",
        "kubernetes",
        "obstore",
    } <= names
    assert not {"pytest", "mypy", "pyspark", "matplotlib"} & names
    assert not (installed / "bin").exists()


@pytest.mark.parametrize(
    "names",
    [
        ("milepost-0.1.0", "milepost-0.2.0", "milepost_server-0.2.0", "milepost_server_core-0.2.0"),
        ("milepost-0.1.0", "milepost-0.2.0", "milepost_server-0.2.0"),
        ("milepost-0.1.0", "milepost_server-0.1.0"),
        (),
    ],
    ids=["two of one", "two of one, none of another", "none of one", "none"],
)
def test_a_dist_without_one_wheel_of_each_is_refused(tmp_path: Path, names: Sequence[str]) -> None:
    script = tmp_path / "deploy" / "install-wheels"
    script.parent.mkdir()
    script.write_bytes((ROOT / "deploy" / "install-wheels").read_bytes())
    (tmp_path / "dist").mkdir()
    for name in names:
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
    assert dockerfile.entry_point() == ["python3", "-m", "milepost_server"]
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


def test_it_is_labelled_as_the_distributions_are() -> None:
    """The version is an argument of the build, which `make image` gives."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    labels = {
        word.partition("=")[0].rpartition(".")[2]: word.partition("=")[2]
        for word in shlex.split(dockerfile.last("LABEL"))
    }
    assert (labels["url"], labels["source"]) == (project["urls"]["Homepage"], project["urls"]["Source"])
    assert (labels["licenses"], labels["vendor"]) == (project["license"], project["authors"][0]["name"])
    assert labels["version"] == "${VERSION}"
    image = subprocess.run(
        ["make", "--dry-run", "image"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert '--build-arg "VERSION=$version" --tag "milepost:$version"' in image


def test_make_image_gives_the_recipe_to_the_container_engine(tmp_path: Path) -> None:
    """The line of docs/start/kubernetes.md, where docker is a program that writes down what it is told.

    No container engine is here; what the recipe does is done by the tests above. They also build, so this does not.
    """
    page = ROOT / "docs" / "start" / "kubernetes.md"
    (line,) = (block.text for block in blocks_of(page) if block.text.startswith("make image"))
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\npwd >{tmp_path}/told\nprintf "%s\\n" "$@" >>{tmp_path}/told\n')
    docker.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    command = ["bash", "-euo", "pipefail", "-c", line]
    subprocess.run(command, cwd=ROOT, env=variables(PATH=path, MAKEFLAGS="-o build"), timeout=60, check=True)
    recipe, version = "deploy/Dockerfile", milepost.__version__
    words = ["build", "--file", recipe, "--build-arg", f"VERSION={version}", "--tag", f"milepost:{version}", "."]
    assert (tmp_path / "told").read_text().splitlines() == [str(ROOT), *words]
    (pushed,) = re.findall(r"docker tag (\S+) ", page.read_text(encoding="utf-8"))
    assert pushed == f"milepost:{version}"


def test_the_base_is_a_python_that_the_server_runs_on() -> None:
    assert {rest.split()[0] for stage in dockerfile.stages() for name, rest in stage if name == "FROM"} == {
        "python:${PYTHON}-slim"
    }
    default = re.search(r"^ARG PYTHON=3\.(\d+)$", dockerfile.DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert default is not None
    assert 11 <= int(default[1]) <= 13
