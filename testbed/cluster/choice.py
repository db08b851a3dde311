"""Which cluster tests and demos use: the one that ``KUBECONFIG`` names, or else a node that is built here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from testbed.cache import cache_directory
from testbed.cluster import given
from testbed.cluster.cluster import KubernetesCluster
from testbed.node import node


def programs_needed(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The programs of Kubernetes that `choose_cluster` takes. Raises `ProcessFailed`."""
    return node.PROGRAMS if given.given_kubeconfig(environment) is None else given.PROGRAMS


def choose_cluster(directory: Path, environment: Mapping[str, str] = os.environ) -> KubernetesCluster:
    """The cluster to use, not started. A node keeps its files under ``directory``.

    What the Pods of a given cluster see of this machine lies in the user's cache, where its nodes can be told to look
    before there are tests. Raises `ProcessFailed`.
    """
    kubeconfig = given.given_kubeconfig(environment)
    if kubeconfig is None:
        return node.Node(directory)
    shared = cache_directory("cluster")
    return given.GivenCluster(kubeconfig, shared, environment.get(given.LOAD_IMAGES, ""))
