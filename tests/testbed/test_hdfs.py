"""HDFS as a part: starts, keeps its files and ports, and counts its DataNodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.hadoop import run
from testbed.hdfs import Hdfs
from testbed.process import ProcessFailed

pytestmark = pytest.mark.kubernetes

_SHELL = "org.apache.hadoop.fs.FsShell"


def test_it_keeps_its_files_and_its_ports(tmp_path: Path) -> None:
    """Hadoop's own client is asked: it gives up in the end, whatever happens."""
    (tmp_path / "file").write_text("value")
    with Hdfs(tmp_path / "hdfs") as cluster:
        configuration = cluster.start().namenode.configuration
        run(_SHELL, configuration, "-put", str(tmp_path / "file"), "/file")
        for part in (*cluster.datanodes, cluster.namenode):
            part.kill()
        assert not cluster.namenode.port.answers()
        cluster.start()
        assert run(_SHELL, configuration, "-cat", "/file") == "value"
        assert cluster.admin("-safemode", "get").strip() == "Safe mode is OFF"
        with pytest.raises(ProcessFailed, match="Unknown command"):
            cluster.admin("-no-such-command")
    assert not any(part.running for part in (*cluster.datanodes, cluster.namenode))


def test_its_url_names_path_and_replication(tmp_path: Path) -> None:
    with Hdfs(tmp_path) as cluster:
        address = cluster.namenode.port.address
        assert cluster.url("a/b") == f"hdfs://{address}/a/b"
        assert cluster.url("a/b", replication=2) == f"hdfs://{address}/a/b?replication=2"
