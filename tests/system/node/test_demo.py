"""The demo on the node: Spark drivers as Pods, one deleted in the middle of a batch, and nothing lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.kube.__main__ import play
from demo.report.progress import Progress
from testbed.cluster.cluster import KubernetesCluster

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


def test_the_standby_goes_on_where_a_deleted_driver_was(node: KubernetesCluster, tmp_path: Path) -> None:
    assert play(node, tmp_path, Progress()) == []
    assert "duplicates" in (tmp_path / "table.txt").read_text()
