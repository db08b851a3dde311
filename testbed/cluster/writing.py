"""Runs writers in a Pod: they reach the service as any client in a cluster does, by the name of its Service."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed import load, writers
from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.pods import Pod
from testbed.cluster.release import Release
from testbed.images.contents import SERVER
from testbed.load import Outcome
from testbed.process import ProcessFailed

_WRITES_SECONDS = 120.0
_SOURCES = (Path(load.__file__), Path(writers.__file__))


class WritingPod:
    """A Pod in which `testbed.load` writes to ``store`` of a ``release``, from the block's beginning until `finish`.

    If the block fails, what the writers and the replicas have logged is printed.
    """

    def __init__(self, node: KubernetesCluster, release: Release, store: str, tag: str) -> None:
        """Prepare the Pod; the block makes it. ``tag`` is that of the server's image, which also has the SDK."""
        self._node = node
        self._release = release
        self._namespace = release.namespace
        self._name = f"writers-{store}"
        self._pod = Pod(node, release.namespace, self._name)
        self._command = ["python3", "-m", "testbed.load", release.url, store]
        self._token = release.token
        self._image = f"{SERVER}:{tag}"

    def __enter__(self) -> Self:
        self._node.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "data": {"__init__.py": "", **{source.name: source.read_text() for source in _SOURCES}},
            }
        )
        self._pod.make(self._spec())
        self.wait_for_write_after(time.monotonic())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"the writers: {self._pod.logs()}", *map(self._said, self._release.pods()), sep="\n")
        self._node.kubectl("delete", f"pod/{self._name}", f"--namespace={self._namespace}", "--grace-period=1")

    def wait_for_write_after(self, moment: float) -> None:
        """Wait until it has written after ``moment``, a monotonic time. Raises `ProcessFailed`."""
        self._pod.wait_until(lambda: self._wrote_after(moment), "does not write", _WRITES_SECONDS)

    def finish(self) -> Outcome:
        """End the writers, which then look for everything that was acknowledged; return the outcome.

        Raises `ProcessFailed`.
        """
        self._pod.execute("python3", "-c", "import os, signal; os.kill(1, signal.SIGTERM)")
        self._pod.wait_end(_WRITES_SECONDS)
        (outcome,) = [line for line in self._pod.logs().splitlines() if line.startswith('{"written": ')]
        return Outcome.parse(outcome)

    def _wrote_after(self, moment: float) -> bool:
        try:
            lines = [json.loads(line) for line in self._pod.logs(tail=20).splitlines() if line.startswith("{")]
        except ProcessFailed:  # not started yet
            return False
        later = [line["written"] for line in lines if line["at"] > moment]
        return len(later) > 1 and later[-1] > later[0]

    def _said(self, replica: str) -> str:
        lines = self._release.pod(replica).logs().splitlines()
        return "\n".join([f"{replica}:", *(line for line in lines if " milepost.access " not in line)])

    def _spec(self) -> dict[str, object]:
        files = [
            {"key": name, "path": f"testbed/{name}"} for name in ("__init__.py", *(each.name for each in _SOURCES))
        ]
        return {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [
                {
                    "name": "writers",
                    "image": self._image,
                    "imagePullPolicy": "Never",
                    "command": self._command,
                    "env": [
                        {"name": "PYTHONPATH", "value": "/writers:/opt/milepost"},
                        {"name": "MILEPOST_TOKEN", "value": self._token},
                    ],
                    "volumeMounts": [{"name": "sources", "mountPath": "/writers", "readOnly": True}],
                }
            ],
            "volumes": [{"name": "sources", "configMap": {"name": self._name, "items": files}}],
        }
