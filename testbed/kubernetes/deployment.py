"""Runs replicas of Milepost over a Kubernetes API and HDFS: pointers in ConfigMaps, an election on a Lease."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from testbed.hadoop.hdfs import Hdfs
from testbed.kubernetes.api import KubernetesApi
from testbed.process import DEADLINE_SECONDS, Process
from testbed.replicas import Replicas

LEASE_SECONDS = 3.0
"""The shortest lease that Milepost accepts. Its default is 15 s, as elsewhere in Kubernetes."""


class KubernetesDeployment(Replicas):
    """``count`` servers, etcd with an API server, and HDFS with one DataNode, with their files under ``directory``.

    The replicas act as an account that has Milepost's Role and nothing else. The Lease lasts ``lease_seconds``. It is
    renewed each sixth of that time; a leader that cannot renew it for two thirds of that time stops leading.
    """

    def __init__(
        self,
        directory: Path,
        *flags: str,
        count: int = 3,
        lease_seconds: float = LEASE_SECONDS,
        detached: bool = False,
    ) -> None:
        self.api = KubernetesApi(directory / "kubernetes", detached=detached)
        self.hdfs = Hdfs(directory / "hdfs", detached=detached)
        self._lease = {
            "lease_duration": f"{lease_seconds:g}",
            "renew_deadline": f"{lease_seconds * 2 / 3:g}",
            "retry_period": f"{lease_seconds / 6:g}",
        }
        self.namespace = ""
        super().__init__(
            directory,
            *flags,
            pointers="",  # known once there is an account
            blobs=self.hdfs.url("milepost"),
            count=count,
            detached=detached,
        )

    @property
    def below(self) -> Sequence[Process]:
        """See `Replicas.below`."""
        return [*self.hdfs.datanodes, self.hdfs.namenode, self.api.server, self.api.etcd]

    def start(self, deadline: float = DEADLINE_SECONDS) -> Self:
        """See `Replicas.start`. Makes the namespace and the account as well."""
        self.api.start(deadline)
        self.namespace = self.api.namespace("milepost")
        self.pointers = self.pointers_by()
        for replica in self.replicas:
            replica.pointers = self.pointers
        return super().start(deadline)

    def pointers_by(self, *, name: str = "milepost", server: str | None = None) -> str:
        """Make an account called ``name``, and return the address for ``--pointers`` by which a replica acts as it.

        ``server`` is the URL of a proxy in front of the API server, if there is one.
        """
        account = self.api.service_account(self.namespace, name=name, server=server)
        return f"kubernetes://{self.namespace}/milepost?" + urlencode({"kubeconfig": str(account), **self._lease})

    def mend_below(self, deadline: float) -> None:
        """See `Replicas.mend_below`."""
        self.api.start(deadline)
        self.hdfs.start(deadline)

    def end_below(self) -> None:
        """See `Replicas.end_below`."""
        self.hdfs.__exit__(None, None, None)
        self.api.end()
