"""What tests and demos ask of a Kubernetes cluster, whether it was built here or was given."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.process import DEADLINE_SECONDS


class KubernetesCluster(ABC):
    """A cluster that runs Pods on this machine, and sees files of it: those below ``directory``, for one.

    `end` takes away what was made there.
    """

    directory: Path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    # -- what each does in its own way -----------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> Self:
        """Wait until it takes Pods. Raises `ProcessFailed`."""

    @abstractmethod
    def end(self) -> None:
        """Take away what was made. Idempotent."""

    @abstractmethod
    def load(self, archive: Path) -> None:
        """Let Pods run the images of an archive. Raises `ProcessFailed`."""

    @abstractmethod
    def visible(self, directory: Path) -> Path:
        """A directory that Pods can mount in place of ``directory``: that one, or an empty one where they see none."""

    @abstractmethod
    def process_of(self, container: str) -> int:
        """The first process of a running container, as this machine numbers it. Raises `ProcessFailed`."""

    @abstractmethod
    def _run(self, name: str, *arguments: str | Path, given: str | None = None, deadline: float) -> str:
        """What a program of Kubernetes printed that may do everything in this cluster. Raises `ProcessFailed`."""

    # -- using it --------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str | Path, given: str | None = None, deadline: float = DEADLINE_SECONDS) -> str:
        """What it printed, asked by who may do everything. Raises `ProcessFailed`."""
        return self._run("kubectl", *arguments, given=given, deadline=deadline)

    def helm(self, *arguments: str | Path, deadline: float = DEADLINE_SECONDS) -> str:
        """As `kubectl`."""
        return self._run("helm", *arguments, deadline=deadline)

    def get(self, *what: str) -> Any:
        """What ``kubectl get`` knows of it, as JSON."""
        return json.loads(self.kubectl("get", *what, "--output=json"))

    def apply(self, *manifests: object) -> None:
        """Make these objects so, or change them to be so. Raises `ProcessFailed`."""
        everything = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--filename=-", given=json.dumps(everything))

    def namespace(self, name: str) -> str:
        """Make a namespace that is not there yet, and wait until it takes Pods; its name."""
        self.kubectl("create", "namespace", name)
        self._wait_for_account(name, DEADLINE_SECONDS)
        return name

    def _wait_for_account(self, namespace: str, deadline: float) -> None:
        """Without its account no Pod is taken; the controllers make it, shortly after its namespace."""
        account = ("serviceaccount/default", f"--namespace={namespace}")
        self.kubectl("wait", "--for=create", *account, f"--timeout={deadline:g}s", deadline=deadline + 10)


def own_environment() -> dict[str, str]:
    """The environment without what the user has set for other clusters, or to reach the world by a proxy."""
    return {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith(("HELM_", "KUBE")) or name.lower().endswith("_proxy"))
    }
