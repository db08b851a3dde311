"""HDFS as a part: starts, keeps its files and ports, and counts its DataNodes."""

from __future__ import annotations

from pathlib import Path

import hdfs_native
import pytest

from parts.hdfs import Hdfs
from parts.process import ProcessFailed


def test_it_keeps_its_files_and_its_ports(tmp_path: Path) -> None:
    with Hdfs(tmp_path) as cluster:
        cluster.start()
        client = hdfs_native.Client(cluster.url(""))
        with client.create("/a/b") as writer:
            writer.write(b"value")
        for part in (*cluster.datanodes, cluster.namenode):
            part.kill()
        with pytest.raises(OSError, match="refused"):
            client.get_file_info("/a/b")
        cluster.start()
        assert client.read("/a/b").read() == b"value"
        assert cluster.admin("-safemode", "get").strip() == "Safe mode is OFF"
        with pytest.raises(ProcessFailed, match="Unknown command"):
            cluster.admin("-no-such-command")
    assert not any(part.running for part in (*cluster.datanodes, cluster.namenode))


def test_its_url_names_path_and_replication(tmp_path: Path) -> None:
    with Hdfs(tmp_path) as cluster:
        address = cluster.namenode.port.address
        assert cluster.url("a/b") == f"hdfs://{address}/a/b"
        assert cluster.url("a/b", replication=2) == f"hdfs://{address}/a/b?replication=2"
