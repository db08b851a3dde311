"""Installs the chart in a cluster and handles the release as its owner would: by Helm, and by looking at its Pods."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from milepost_backends.kubernetes.address import DEPLOYMENT, INSTANCE
from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.hdfs import AUTHORITY, USER
from testbed.cluster.pods import Pod
from testbed.images.contents import SERVER
from testbed.process import DEADLINE_SECONDS, ProcessFailed
from testbed.server import ROOT

CHART = ROOT / "deploy" / "chart"
READY_SECONDS = 180.0

Values = Mapping[str, Any]

_SECRET = "milepost-tokens"
_WITH_TOKENS: Values = {"auth": {"existingSecret": _SECRET}}
WITHOUT_TOKENS: Values = {"auth": {"insecure": True}}
BLOBS: Values = {"blobs": {"kind": "hdfs", "hdfs": {"authority": AUTHORITY, "path": "/milepost", "user": USER}}}


class Release:
    """The release ``name`` in an existing ``namespace``, with pointers in ConfigMaps and blobs on the cluster's HDFS.

    ``values`` are given to the chart, beside those of the release. Clients need the ``token``, unless ``values`` say
    otherwise.
    """

    def __init__(
        self, node: KubernetesCluster, namespace: str, values: Values | None = None, name: str = "milepost"
    ) -> None:
        self._node = node
        self.namespace = namespace
        self.name = name
        self._values = {**BLOBS, **_WITH_TOKENS, **(values or {})}
        self.token = secrets.token_hex(16)
        self.url = f"http://{name}.{namespace}:7070"
        """The URL that leads to any replica, from inside of the cluster."""
        self.leader_url = f"http://{name}-leader.{namespace}:7070"
        """That of the leader alone, for clients that cannot be sent on, such as Hadoop's."""

    # -- Helm ------------------------------------------------------------------------------------------------------

    def install(self, tag: str) -> None:
        """Install the release, and wait until it is ready. Raises `ProcessFailed`, as do all that call Helm."""
        self._node.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": _SECRET, "namespace": self.namespace},
                "stringData": {"tokens": f"writers {self.token}\n"},
            }
        )
        self._helm("install", self.name, CHART, *self._settings(tag), *_waiting())

    def upgrade(self, tag: str, values: Values | None = None) -> None:
        """Upgrade to the image with another ``tag``, or other ``values``, and wait until the last old Pod is gone."""
        self._values.update(values or {})
        self._helm("upgrade", self.name, CHART, *self._settings(tag), *_waiting())
        self._wait_for_old_pods()

    def rollback(self) -> None:
        """Undo the last `upgrade`, and wait as that does."""
        self._helm("rollback", self.name, *_waiting())
        self._wait_for_old_pods()

    def test(self) -> str:
        """Run the chart's own test, and return what it printed."""
        return self._helm("test", self.name, "--logs", f"--timeout={READY_SECONDS:g}s")

    def uninstall(self) -> str:
        """Uninstall the release, wait until all Pods are gone, and return what Helm printed."""
        output = self._helm("uninstall", self.name, *_waiting())
        self._wait(lambda: not self.pods(), "has Pods still")
        return output

    # -- looking at it ---------------------------------------------------------------------------------------------

    def pods(self) -> list[str]:
        """Return the names of the replicas' Pods, including those that are ending."""
        return [pod["metadata"]["name"] for pod in self._pods()]

    def images(self) -> set[str]:
        """Return the images that the replicas run."""
        return {pod["spec"]["containers"][0]["image"] for pod in self._pods()}

    def pod(self, name: str) -> Pod:
        """Return the replica's Pod with this name."""
        return Pod(self._node, self.namespace, name)

    def leader(self, deadline: float = DEADLINE_SECONDS) -> Pod:
        """Return the Pod that carries the leader's label; wait until one does. Raises `ProcessFailed`."""
        found: list[str] = []

        def labelled() -> bool:
            found[:] = [pod["metadata"]["name"] for pod in self._pods("milepost/role=leader")]
            return len(found) == 1

        self._wait(labelled, "has no labelled leader, or several", deadline)
        return self.pod(found[0])

    def holder(self) -> str:
        """Return the identity that holds the Lease; empty if none does."""
        lease = self._node.get("lease", self.name, f"--namespace={self.namespace}")
        holder: str = lease["spec"].get("holderIdentity", "")
        return holder

    def wait_for_other_holder(self, holder: str) -> None:
        """Wait until somebody else holds the Lease than ``holder``. Raises `ProcessFailed`."""
        self._wait(lambda: self.holder() not in ("", holder), "has the same leader still")

    def left_behind(self) -> list[str]:
        """Return as ``kind/name`` what is still there of the release: objects of the chart, and those Milepost made."""
        kinds = "configmaps,leases,services,pods,deployments,replicasets"
        found = [
            self._node.get(kinds, self._in, f"--selector={label}={self.name}")["items"]
            for label in (INSTANCE, DEPLOYMENT)
        ]
        return sorted({f"{item['kind'].lower()}/{item['metadata']['name']}" for items in found for item in items})

    def _pods(self, *labels: str) -> list[Any]:
        wanted = ",".join([f"app.kubernetes.io/instance={self.name}", "app.kubernetes.io/component=server", *labels])
        found: list[Any] = self._node.get("pods", self._in, f"--selector={wanted}")["items"]
        return found

    # -- helpers ---------------------------------------------------------------------------------------------------

    @property
    def _in(self) -> str:
        return f"--namespace={self.namespace}"

    def _helm(self, *arguments: str | Path) -> str:
        return self._node.helm(*arguments, self._in, deadline=READY_SECONDS + 30)

    def _settings(self, tag: str) -> list[str]:
        image = {"repository": SERVER, "tag": tag, "pullPolicy": "Never"}
        path = self._node.directory / f"values-{self.namespace}-{self.name}.json"
        path.write_text(json.dumps({**self._values, "image": image}))
        return [f"--values={path}"]

    def _wait_for_old_pods(self) -> None:
        replicas = self._node.get("deployment", self.name, self._in)["spec"]["replicas"]
        self._wait(lambda: len(self.pods()) == replicas and len(self.images()) == 1, "has Pods of two kinds")

    def _wait(self, holds: Callable[[], bool], complaint: str, deadline: float = READY_SECONDS) -> None:
        end = time.monotonic() + deadline
        while not holds():
            if time.monotonic() > end:
                raise ProcessFailed(f"the release {self.name} {complaint} after {deadline:g} s")
            time.sleep(0.1)


def _waiting() -> list[str]:
    return ["--wait", f"--timeout={READY_SECONDS:g}s"]
