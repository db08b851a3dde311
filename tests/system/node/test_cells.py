"""A release under load becomes a cell, and gets others beside it: nobody loses a write, and no cell is taken away."""

from __future__ import annotations

import re
import time

import pytest

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.release import Release
from testbed.cluster.writing import WritingPod
from testbed.process import ProcessFailed
from tests.system.node.test_release import assert_all_answered

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_release_becomes_three_cells_while_clients_of_the_first_write(
    node: KubernetesCluster, namespace: str
) -> None:
    release = Release(node, namespace, {"replicas": 1})
    release.install("1")
    before = release.pods()
    with WritingPod(node, release, "cells", "1") as writing:
        upgraded = time.monotonic()
        release.upgrade("1", {"cells": 3})
        assert not {*before} & {*release.pods()}
        writing.wait_for_write_after(time.monotonic())
        outcome = writing.finish()
    print(f"{outcome.written} writes; longest gap {outcome.gap_after(upgraded):.2f} s from the upgrade on")
    assert_all_answered(outcome)
    led = re.findall(r"leads the cell (\S+)", release.test())
    assert led == ["cell-0", "cell-1", "cell-2"]
    with pytest.raises(ProcessFailed, match="cells=1, and there are 3"):
        release.upgrade("1", {"cells": 1})
