"""Runs HDFS in a cluster: a Pod with a NameNode and a DataNode, for all other Pods. Its data is lost with the Pod."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.pods import Manifest, Pod, directory_volume
from testbed.hadoop.hdfs import COMMON
from testbed.hadoop.programs import configure
from testbed.images.contents import SPARK
from testbed.java import FOR_SMALL
from testbed.maven import jars
from testbed.node.node import START_SECONDS

NAMESPACE = "milepost-storage"
AUTHORITY = f"hdfs.{NAMESPACE}:8020"
USER = "root"
"""The user of the Pod, who may read the jars in the user's cache, and do everything in HDFS."""

_LABELS = {"app": "hdfs"}
_SETTINGS: Mapping[str, str] = {
    **COMMON,
    "fs.defaultFS": f"hdfs://{AUTHORITY}",
    "hadoop.tmp.dir": "/tmp/hadoop",
    "dfs.namenode.rpc-bind-host": "0.0.0.0",
    "dfs.namenode.http-address": "0.0.0.0:9870",
    "dfs.datanode.address": "0.0.0.0:9866",
}
_SCRIPT = f"""
hadoop() {{ java {" ".join(FOR_SMALL)} -cp "/conf:/jars/*" org.apache.hadoop.hdfs."$@"; }}
until getent hosts {AUTHORITY.partition(":")[0]}; do sleep 0.2; done
hadoop server.namenode.NameNode -format -nonInteractive -force
hadoop server.namenode.NameNode &
hadoop server.datanode.DataNode &
until hadoop tools.DFSAdmin -report | grep -q '^Live datanodes (1)'; do sleep 0.5; done
touch /tmp/ready
wait -n
"""


def start_hdfs(node: KubernetesCluster) -> Pod:
    """Start HDFS, and wait until it takes files. The image `SPARK` must be loaded. Raises `ProcessFailed`."""
    configuration = node.directory / "hdfs"
    configure(configuration, _SETTINGS)
    node.namespace(NAMESPACE)
    node.apply(_service())
    pod = Pod(node, NAMESPACE, "hdfs").make(
        _spec(configuration_volume=directory_volume("conf", configuration)), _LABELS
    )
    pod.wait_ready(START_SECONDS)
    return pod


def _service() -> Manifest:
    """Return the Service. It has no address of its own, since the NameNode sends clients to the address of the Pod."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hdfs", "namespace": NAMESPACE},
        "spec": {
            "clusterIP": "None",
            "selector": _LABELS,
            "publishNotReadyAddresses": True,
            "ports": [{"name": "namenode", "port": 8020}],
        },
    }


def _spec(configuration_volume: Manifest) -> Manifest:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsUser": 0},
        "containers": [
            {
                "name": "hdfs",
                "image": SPARK,
                "imagePullPolicy": "Never",
                "command": ["bash", "-c", _SCRIPT],
                "readinessProbe": {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1},
                "volumeMounts": [
                    {"name": "jars", "mountPath": "/jars", "readOnly": True},
                    {"name": "conf", "mountPath": "/conf", "readOnly": True},
                ],
            }
        ],
        "volumes": [directory_volume("jars", jars("hadoop")), configuration_volume],
    }
