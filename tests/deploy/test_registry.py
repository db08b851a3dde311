"""The chart goes through a real OCI registry, as docs/install.md says: packed, pushed, pulled by version, installed.

The registry is go-containerregistry's, which keeps everything in memory and speaks plain HTTP on this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import milepost
from testbed.process import Process
from tests.deploy.helm import CHART, ROOT, VALUES, Helm, Refused, chosen
from tests.deploy.objects import Objects
from tests.install.page import blocks
from tests.install.shells import shell

pytestmark = pytest.mark.kubernetes

HEADING = "The chart from a registry of yours"
SERVES = re.compile(r"serving on port (\d+)")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its host and port."""
    found = subprocess.run(
        [ROOT / "tools" / "registry" / "build", "--find"], capture_output=True, text=True, timeout=60, check=False
    )
    if found.returncode == 3:
        pytest.skip(found.stderr.strip())
    assert found.returncode == 0, found.stderr
    log = tmp_path_factory.mktemp("registry") / "log"
    with Process("registry", [found.stdout.strip(), "-port", "0"], log_path=log) as process:
        process.start(lambda: SERVES.search(process.logged()) is not None)
        port = SERVES.search(process.logged())
        assert port is not None
        yield f"localhost:{port[1]}"


@pytest.fixture(scope="module")
def pulled(registry: str, helm_program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart that the lines of the page pushed and pulled, each pasted into a shell beside a checkout."""
    directory = tmp_path_factory.mktemp("shell")
    (directory / "deploy").mkdir()
    shutil.copytree(CHART, directory / "deploy" / "chart")
    programs = directory / "programs"
    programs.mkdir()
    (programs / "helm").symlink_to(helm_program)
    variables = {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "HOME": str(directory),
        "KUBECONFIG": str(directory / "no-cluster.conf"),
        "REGISTRY": registry,
    }
    pushing, pulling = blocks(HEADING)
    said = yaml.safe_load(
        shell(pushing, variables, directory).partition("\nannotations:")[2].join(["annotations:", ""])
    )
    assert (said["name"], said["version"]) == ("milepost", milepost.__version__)
    shell(pulling, variables, directory)
    return directory / "milepost"


def test_what_is_pulled_by_version_renders_the_same(helm: Helm, pulled: Path, values: Path) -> None:
    release = ["milepost", "--namespace", "data", *chosen(values)]
    assert helm.run("template", release[0], pulled, *release[1:]) == helm.run(
        "template", release[0], CHART, *release[1:]
    )


def test_a_version_that_was_never_pushed_is_not_there(helm: Helm, pulled: Path, registry: str) -> None:
    assert pulled.is_dir()
    with pytest.raises(Refused, match=r"9\.9\.9"):
        helm.run("pull", f"oci://{registry}/charts/milepost", "--version", "9.9.9")


def test_it_is_installed_from_there(
    helm_program: str, objects: Objects, pulled: Path, registry: str, tmp_path: Path
) -> None:
    assert pulled.is_dir()
    helm = Helm(helm_program, tmp_path, objects.api.admin_kubeconfig)
    namespace = objects.namespace()
    (values,) = (path for path in VALUES if path.name == "kubernetes-s3-values.yaml")
    chart = [f"oci://{registry}/charts/milepost", "--version", milepost.__version__]
    said = helm.run("install", "milepost", *chart, "--namespace", namespace, *chosen(values))
    assert "rollout status deployment/milepost" in said
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/milepost"
    assert objects.api.admin.ask("GET", path)["spec"]["replicas"] == 3
    (release,) = yaml.safe_load(helm.run("list", "--namespace", namespace, "--output", "yaml"))
    assert release["chart"] == f"milepost-{milepost.__version__}"
