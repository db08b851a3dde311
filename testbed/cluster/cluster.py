"""Defines what tests and demos ask of a Kubernetes cluster, whether the testbed built it or a person did."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.commands import run
from testbed.process import DEADLINE_SECONDS, Process


class KubernetesCluster(ABC):
    """A cluster that runs Pods on this machine. Its Pods can see files below ``directory``.

    `end` removes what was made there.
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
        """Start the cluster if it does not run yet, and wait until it takes Pods. Raises `ProcessFailed`."""

    @abstractmethod
    def end(self) -> None:
        """Remove what was made. Idempotent."""

    @abstractmethod
    def load(self, archive: Path) -> None:
        """Let Pods run the images of an archive. Raises `ProcessFailed`."""

    @abstractmethod
    def visible(self, directory: Path) -> Path:
        """Return a directory that Pods can mount: ``directory`` itself, or an empty one if they cannot see that."""

    @abstractmethod
    def process_of(self, container: str) -> int:
        """Return the id that the first process of a running container has on this machine. Raises `ProcessFailed`."""

    @abstractmethod
    def _before(self, name: str) -> Sequence[str]:
        """Return the words that call a program of Kubernetes, before its arguments. Raises `ProcessFailed`."""

    @abstractmethod
    def _environment(self) -> dict[str, str]:
        """Return the whole environment in which such a program is an administrator's."""

    # -- using it --------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str | Path, given: str | None = None, deadline: float = DEADLINE_SECONDS) -> str:
        """Run kubectl as an administrator, and return what it printed. Raises `ProcessFailed`."""
        return self._run("kubectl", *arguments, given=given, deadline=deadline)

    def following(self, log_path: Path, *arguments: str) -> Process:
        """Return a kubectl that goes on until it is ended, once it is started; it prints to ``log_path``."""
        command = [*self._before("kubectl"), *arguments]
        return Process("kubectl", command, log_path=log_path, environment=self._environment())

    def helm(self, *arguments: str | Path, deadline: float = DEADLINE_SECONDS) -> str:
        """Run helm as an administrator, and return what it printed. Raises `ProcessFailed`."""
        return self._run("helm", *arguments, deadline=deadline)

    def get(self, *what: str) -> Any:
        """Return what ``kubectl get`` prints as JSON for these arguments."""
        return json.loads(self.kubectl("get", *what, "--output=json"))

    def apply(self, *manifests: object) -> None:
        """Make these objects, or change existing ones to be like these. Raises `ProcessFailed`."""
        everything = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--filename=-", given=json.dumps(everything))

    def namespace(self, name: str) -> str:
        """Make a namespace that does not exist yet, wait until it takes Pods, and return its name."""
        self.kubectl("create", "namespace", name)
        self._wait_for_account(name, DEADLINE_SECONDS)
        return name

    def _run(self, name: str, *arguments: str | Path, given: str | None = None, deadline: float) -> str:
        command = [*self._before(name), *arguments]
        return run(command, given=given, environment=self._environment(), deadline=deadline)

    def _wait_for_account(self, namespace: str, deadline: float) -> None:
        """Wait for the namespace's default account, without which no Pod is taken; a controller makes it."""
        account = ("serviceaccount/default", f"--namespace={namespace}")
        self.kubectl("wait", "--for=create", *account, f"--timeout={deadline:g}s", deadline=deadline + 10)


def own_environment() -> dict[str, str]:
    """Return this process's environment without what names other clusters or proxies."""
    return {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith(("HELM_", "KUBE")) or name.lower().endswith("_proxy"))
    }
