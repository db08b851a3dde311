"""Chooses the cluster that tests and demos use: that which ``KUBECONFIG`` names, or else a node that is built here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from testbed.cache import cache_directory
from testbed.cluster import given
from testbed.cluster.cluster import KubernetesCluster
from testbed.node import node


def programs_needed(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the programs of Kubernetes that `choose_cluster` needs. Raises `ProcessFailed`."""
    return node.PROGRAMS if given.given_kubeconfig(environment) is None else given.PROGRAMS


def choose_cluster(directory: Path, environment: Mapping[str, str] = os.environ) -> KubernetesCluster:
    """Return the cluster to use, which is not started yet. A node keeps its files under ``directory``.

    The Pods of a cluster that ``KUBECONFIG`` names see files of this machine below the user's cache: that directory is
    known when the cluster is made, before any test runs. Raises `ProcessFailed`.
    """
    kubeconfig = given.given_kubeconfig(environment)
    if kubeconfig is None:
        return node.Node(directory)
    shared = cache_directory("cluster")
    return given.GivenCluster(kubeconfig, shared, environment.get(given.LOAD_IMAGES, ""))
