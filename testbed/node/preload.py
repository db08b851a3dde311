"""Puts into a cluster what it needs before the chart is installed: the project's images, and HDFS."""

from __future__ import annotations

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.hdfs import start_hdfs
from testbed.images.contents import server_image, spark_image


def furnish(node: KubernetesCluster, *tags: str) -> None:
    """Load the server's image under each of the ``tags`` and the Spark drivers' image, and start HDFS.

    The wheels in ``dist`` must be there. Raises `ProcessFailed`.
    """
    archive = node.directory / "image.tar"
    node.load(server_image(archive, *tags))
    node.load(spark_image(archive))
    archive.unlink()
    start_hdfs(node)
