"""Makes a Pod in a cluster, looks at it, waits for it, and ends it in more ways than Kubernetes has."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.cluster.cluster import KubernetesCluster
from testbed.process import DEADLINE_SECONDS, ProcessFailed, stands_still, with_descendants

_POLL_SECONDS = 0.1

Manifest = Mapping[str, Any]


class Pod:
    """The Pod ``name`` in a ``namespace``, whether it exists or not."""

    def __init__(self, node: KubernetesCluster, namespace: str, name: str) -> None:
        self._node = node
        self._namespace = namespace
        self.name = name

    def make(self, spec: Manifest, labels: Mapping[str, str] | None = None) -> Pod:
        """Make the Pod. Raises `ProcessFailed` if it is refused."""
        metadata = {"name": self.name, "namespace": self._namespace, "labels": dict(labels or {})}
        self._node.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return self

    @property
    def phase(self) -> str:
        """The Pod's phase: Pending, Running, Succeeded or Failed."""
        phase: str = self.status["phase"]
        return phase

    @property
    def status(self) -> Manifest:
        """The Pod's ``status``, as the API has it."""
        status: Manifest = self._node.get("pod", self.name, f"--namespace={self._namespace}")["status"]
        return status

    def logs(self, tail: int | None = None) -> str:
        """Return what its container has printed: the last ``tail`` lines, or all."""
        lines = () if tail is None else (f"--tail={tail}",)
        return self._node.kubectl("logs", self.name, f"--namespace={self._namespace}", *lines)

    def execute(self, *command: str) -> str:
        """Run a command in its container, and return what it printed. Raises `ProcessFailed`."""
        return self._node.kubectl("exec", self.name, f"--namespace={self._namespace}", "--", *command)

    def wait_ready(self, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until the Pod is ready. Raises `ProcessFailed` with its log."""
        try:
            self._node.kubectl(
                "wait",
                "--for=condition=Ready",
                f"pod/{self.name}",
                f"--namespace={self._namespace}",
                f"--timeout={deadline:g}s",
                deadline=deadline + 10,
            )
        except ProcessFailed as failure:
            raise self.failed("is not ready") from failure

    def wait_end(self, deadline: float = DEADLINE_SECONDS) -> str:
        """Wait until its container has ended for good, and return the phase. Raises `ProcessFailed`."""
        self.wait_until(lambda: self.phase in ("Succeeded", "Failed"), "does not end", deadline)
        return self.phase

    def wait_until(self, holds: Callable[[], bool], complaint: str, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until ``holds()``. Raises `ProcessFailed` with its log."""
        end = time.monotonic() + deadline
        while not holds():
            if time.monotonic() > end:
                raise self.failed(f"{complaint} after {deadline:g} s")
            time.sleep(_POLL_SECONDS)

    def delete_at_once(self) -> None:
        """Delete the Pod by force (``--grace-period=0``): the API forgets it before its processes have ended."""
        self._node.kubectl(
            "delete", "pod", self.name, f"--namespace={self._namespace}", "--grace-period=0", "--force", "--wait=false"
        )

    def kill(self) -> None:
        """Send SIGKILL to the first process of its container; Kubernetes, which was not told, starts it again."""
        os.kill(self._first_process(), signal.SIGKILL)

    def freeze(self) -> None:
        """Send SIGSTOP to every process of its container, and wait until none runs. Raises `ProcessFailed`."""
        self._signal(signal.SIGSTOP)
        self.wait_until(lambda: all(map(stands_still, with_descendants(self._first_process()))), "does not stop")

    def thaw(self) -> None:
        """Send SIGCONT to every process of its container."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in with_descendants(self._first_process()):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(process, number)

    def _first_process(self) -> int:
        (container,) = self.status["containerStatuses"]
        return self._node.process_of(container["containerID"].partition("://")[2])

    def failed(self, complaint: str) -> ProcessFailed:
        """Return an error to raise, with the ``complaint``, the Pod's description and its log."""
        answers = []
        for question in (("describe", "pod", self.name), ("logs", self.name, "--tail=50")):
            try:
                answers.append(self._node.kubectl(*question, f"--namespace={self._namespace}"))
            except ProcessFailed as failure:
                answers.append(str(failure))
        return ProcessFailed("\n".join([f"the Pod {self.name} {complaint}", *answers]))


def directory_volume(name: str, directory: Path) -> Manifest:
    """Return a volume ``name`` that is a directory of this machine."""
    return {"name": name, "hostPath": {"path": str(directory), "type": "Directory"}}
