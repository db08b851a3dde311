"""Milepost as the chart installs it, on a real cluster, for the length of a demo."""

from __future__ import annotations

import time

from demo.processes import border
from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.pods import Pod
from testbed.cluster.release import WITHOUT_TOKENS, Release

_NAMESPACE = "milepost-demo"
TAG = "1"
_QUICK = {"pointers": {"kubernetes": {"leaseDuration": 6, "renewDeadline": 4, "retryPeriod": 1}}}


class Cluster:
    """A furnished ``node``, and a release of the chart in a namespace of its own there."""

    def __init__(self, node: KubernetesCluster) -> None:
        self._node = node
        self._release = Release(node, _NAMESPACE, {**WITHOUT_TOKENS, **_QUICK})

    @property
    def services(self) -> list[str]:
        """The URL of the leader's Service, as Pods know it: Hadoop's client cannot be sent on to another replica."""
        return [self._release.leader_url]

    def install(self) -> float:
        """``helm install``; how many seconds it took until every replica was ready. Raises `DemoFailed`, as all do."""
        began = time.monotonic()
        with border():
            self._node.namespace(_NAMESPACE)
            self._release.install(TAG)
        return time.monotonic() - began

    def apply(self, manifest: dict[str, object]) -> None:
        """Make an object in the release's namespace."""
        metadata = manifest["metadata"]
        assert isinstance(metadata, dict), "every object has metadata"
        with border():
            self._node.apply({**manifest, "metadata": {**metadata, "namespace": _NAMESPACE}})

    def pod(self, name: str) -> Pod:
        """One in the release's namespace."""
        return Pod(self._node, _NAMESPACE, name)

    def delete(self, name: str) -> None:
        """Delete a Pod with no grace."""
        with border():
            self.pod(name).delete_at_once()

    def delete_leader(self) -> str:
        """Delete the Pod of the service's leader with no grace; its name."""
        with border():
            leader = self._release.leader()
            leader.delete_at_once()
        return leader.name
