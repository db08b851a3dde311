"""What the distributions install works in an environment that holds nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import milepost
from testbed.ports import Port
from testbed.process import Process
from tests.install.conftest import Dist, environment, run
from tests.install.shells import leading

HEAVY = {"boto3", "hdfs-native", "kazoo", "kubernetes", "obstore"}
ADDRESSES = {
    "zookeeper": ["--pointers", "zookeeper://127.0.0.1:1/milepost"],
    "zookeeper+tls": ["--pointers", "zookeeper+tls://127.0.0.1:1/milepost"],
    "kubernetes": ["--pointers", "kubernetes://namespace/name"],
    "s3": ["--blobs", "s3://bucket/prefix"],
    "hdfs": ["--blobs", "hdfs://127.0.0.1:1/milepost"],
}
"""Flags that ask for each backend that an extra belongs to."""
MODULES = {"zookeeper": "kazoo", "kubernetes": "kubernetes", "s3": "obstore", "hdfs": "hdfs_native"}


@pytest.fixture(scope="module")
def core(dist: Dist, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the core alone, and the command line to ask it with."""
    place = tmp_path_factory.mktemp("core") / "environment"
    return environment(dist, place, "milepost-server-core", "milepost[cli]")


@pytest.fixture(scope="module")
def whole(dist: Dist, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the whole server."""
    return environment(dist, tmp_path_factory.mktemp("whole") / "environment", "milepost-server")


@pytest.fixture
def url(core: Path, dist: Dist, tmp_path: Path) -> Iterator[str]:
    """A server of the core, with its default settings but for the port."""
    port = Port()
    url = f"http://{port.address}"
    command = [str(core / "milepost-server"), "--listen", port.address]
    log = tmp_path / "log"
    with Process("core", command, log_path=log, directory=tmp_path, environment=dist.variables) as server:
        server.start(leading(port))
        yield url
        assert server.stop() == 0


def installed(commands: Path, dist: Dist) -> set[str]:
    code = "import importlib.metadata as m, json; print(json.dumps([each.name for each in m.distributions()]))"
    return set(json.loads(run([commands / "python", "-c", code], dist)))


def refusal(commands: Path, flags: Sequence[str], directory: Path, dist: Dist) -> str:
    """What a server says that does not start because of its settings."""
    port = Port()
    ended = subprocess.run(
        [commands / "milepost-server", "--listen", port.address, *flags],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=directory,
        env=dist.variables,
    )
    assert ended.returncode == 2, ended.stderr
    return ended.stderr.splitlines()[-1]


def test_the_core_serves_without_what_other_backends_need(core: Path, url: str, dist: Dist, tmp_path: Path) -> None:
    assert not HEAVY & installed(core, dist)
    said: list[str | Path] = [core / "milepost", "--url", url]
    state = tmp_path / "state"
    state.write_text("batch 7")
    run([*said, "put", "flights", "latest", str(state)], dist)
    assert run([*said, "get", "flights", "latest"], dist) == "batch 7"


@pytest.mark.parametrize("scheme", ADDRESSES)
def test_a_backend_without_its_extra_names_the_command_that_installs_it(
    core: Path, dist: Dist, tmp_path: Path, scheme: str
) -> None:
    extra = scheme.partition("+")[0]
    assert refusal(core, ADDRESSES[scheme], tmp_path, dist) == (
        f"milepost-server: the backend '{scheme}' needs the module {MODULES[extra]}, which is not installed: "
        f"pip install 'milepost-server-core[{extra}]'"
    )


@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_brings_all_that_its_backend_imports(dist: Dist, tmp_path: Path, extra: str) -> None:
    """Each module of the package is imported, with those that it needs only later."""
    commands = environment(dist, tmp_path / "environment", f"milepost-server-core[{extra}]")
    code = (
        "import importlib, pkgutil, sys; package = importlib.import_module(sys.argv[1])\n"
        "for each in pkgutil.walk_packages(package.__path__, sys.argv[1] + '.'): importlib.import_module(each.name)"
    )
    run([commands / "python", "-c", code, f"milepost_backends.{extra}"], dist)
    assert HEAVY & installed(commands, dist), "or the test looked at the wrong environment"


def test_the_whole_has_every_backend(whole: Path, dist: Dist, tmp_path: Path) -> None:
    assert installed(whole, dist) >= HEAVY | {"milepost", "milepost-server", "milepost-server-core"}
    code = (
        "from milepost_server.compose import open_replica, ReplicaConfig\n"
        "from milepost_server.replica.settings import Settings\n"
        + "".join(
            f"open_replica(ReplicaConfig({pointers!r}, {blobs!r}, 'http://127.0.0.1:1', 'here'), Settings())\n"
            for pointers, blobs in [
                (ADDRESSES["zookeeper"][1], ADDRESSES["hdfs"][1]),
                (ADDRESSES["zookeeper+tls"][1], f"file:{tmp_path}"),
            ]
        )
    )
    run([whole / "python", "-c", code], dist, tmp_path)
    run(
        [whole / "python", "-c", "import milepost_backends.s3.blobs, milepost_backends.kubernetes.pointers.store"],
        dist,
        tmp_path,
    )


def test_each_command_tells_the_version(core: Path, whole: Path, dist: Dist) -> None:
    version = milepost.__version__
    assert {run([place / "milepost-server", "--version"], dist) for place in (core, whole)} == {
        f"milepost-server {version}\n"
    }
    assert run([core / "milepost", "--version"], dist) == f"milepost {version}\n"
    assert run([core / "python", "-c", "import milepost; print(milepost.__version__)"], dist) == f"{version}\n"
