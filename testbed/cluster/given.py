"""Uses a cluster that a person made on this machine, with kind or k3d: ``KUBECONFIG`` names it."""

from __future__ import annotations

import ipaddress
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import yaml

from testbed.cluster.cluster import KubernetesCluster, own_environment
from testbed.commands import program, run
from testbed.process import ProcessFailed

KUBECONFIG: Final = "KUBECONFIG"
LOAD_IMAGES: Final = "MILEPOST_LOAD_IMAGES"
PROGRAMS: Final = ("kubectl", "helm")

_LOAD_SECONDS = 600.0
_SERVES_SECONDS = 60.0
_DELETED_SECONDS = 180.0


def given_kubeconfig(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file that ``KUBECONFIG`` names; None if it names nothing.

    Raises `ProcessFailed` if it does not name exactly one file, or if the cluster is not on this machine: tests install
    and delete things, which only a cluster that was made for trying should have to bear.
    """
    named = environment.get(KUBECONFIG, "")
    if not named:
        return None
    path = Path(named)
    if not path.is_file():
        raise ProcessFailed(f"{KUBECONFIG} has to name one file, and {named!r} is none; unset it to build a node here")
    server = _server(path)
    if not _is_here(urlsplit(server).hostname or ""):
        raise ProcessFailed(
            f"the cluster in {path} answers at {server!r}, which is not on this machine: take one of kind or k3d, "
            f"or unset {KUBECONFIG} to build a node here"
        )
    return path.resolve()


class GivenCluster(KubernetesCluster):
    """The cluster of a ``kubeconfig``, used through the API alone. Files for it lie under ``directory``.

    Its nodes have to see ``directory`` under the same path. ``load_images`` is a command that takes the path of an
    archive of images as its last word, and lets each node run them.
    """

    def __init__(self, kubeconfig: Path, directory: Path, load_images: str) -> None:
        self.directory = directory.resolve()
        self._kubeconfig = kubeconfig
        self._load_images = load_images
        self._namespaces: list[str] = []

    def start(self) -> Self:
        """See `KubernetesCluster.start`."""
        if not self._load_images:
            raise ProcessFailed(
                f"with {KUBECONFIG}, {LOAD_IMAGES} has to be a command that loads an archive of images, such as "
                "'kind load image-archive' or 'k3d image import --cluster NAME'"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        self.kubectl("get", "--raw=/readyz", deadline=_SERVES_SECONDS)
        return self

    def end(self) -> None:
        """Delete the namespaces that were made, with all that is in them, and wait until they are gone."""
        with ExitStack() as whatever_fails:
            while self._namespaces:
                whatever_fails.callback(self._delete, self._namespaces.pop())

    def namespace(self, name: str) -> str:
        """See `KubernetesCluster.namespace`. Raises `ProcessFailed` for one that a killed run left behind, too."""
        self.kubectl("create", "namespace", name)
        self._namespaces.append(name)
        self._wait_for_account(name, _SERVES_SECONDS)
        return name

    def load(self, archive: Path) -> None:
        """See `KubernetesCluster.load`."""
        run([*shlex.split(self._load_images), archive], deadline=_LOAD_SECONDS)

    def visible(self, directory: Path) -> Path:
        """See `KubernetesCluster.visible`."""
        shared = self.directory / directory.name
        shutil.rmtree(shared, ignore_errors=True)
        shared.mkdir(parents=True)
        return shared

    def process_of(self, container: str) -> int:
        """Raise `ProcessFailed`: the processes of such a cluster are out of reach."""
        raise ProcessFailed(f"only on a node built here the process of {container} is within reach: unset {KUBECONFIG}")

    def _delete(self, namespace: str) -> None:
        waiting = f"--timeout={_DELETED_SECONDS:g}s"
        self.kubectl("delete", "namespace", namespace, "--ignore-not-found", waiting, deadline=_DELETED_SECONDS + 10)

    def _before(self, name: str) -> Sequence[str]:
        return [program(name)]

    def _environment(self) -> dict[str, str]:
        return {**own_environment(), KUBECONFIG: str(self._kubeconfig)}


def _server(path: Path) -> str:
    """Return the address of the current context's cluster; empty if the file names none."""
    try:
        found = yaml.safe_load(path.read_text())
        context = _named(found["contexts"], found["current-context"])["context"]
        return str(_named(found["clusters"], context["cluster"])["cluster"]["server"])
    except (OSError, yaml.YAMLError, UnicodeDecodeError, LookupError, TypeError) as error:
        raise ProcessFailed(f"{path} names no cluster as its current one: {error!r}") from error


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((entry for entry in entries if entry["name"] == name), {})


def _is_here(host: str) -> bool:
    """Return whether a host is this machine; k3d calls it 0.0.0.0."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified
