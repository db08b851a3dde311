"""The leader's Pod dies, in more ways than one, under a load that comes through the Service and the cluster's names."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.pods import Pod
from testbed.cluster.release import Release
from testbed.cluster.writing import WritingPod
from tests.system.node.test_release import assert_all_answered

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

LEASE_SECONDS = 15.0
"""The chart's own."""

FAULTS = [
    pytest.param(Pod.delete_at_once, id="deleted at once"),
    pytest.param(Pod.kill, id="killed", marks=pytest.mark.own_node),
]


@pytest.mark.parametrize("strike", FAULTS)
def test_writes_go_on_after_the_leader_and_nothing_is_lost(
    node: KubernetesCluster, release: Release, strike: Callable[[Pod], None]
) -> None:
    release.install("1")
    with WritingPod(node, release, "leaders", "1") as writing:
        leader, holder = release.leader(), release.holder()
        struck = time.monotonic()
        strike(leader)
        release.wait_for_other_holder(holder)
        writing.wait_for_write_after(time.monotonic())
        print(f"{strike.__name__}: writes go on after at most {time.monotonic() - struck:.1f} s")
        outcome = writing.finish()
        waits = [f"{gap.seconds:.2f} s of {gap.writer} {gap.since - struck:+.2f} s" for gap in outcome.gaps[:5]]
        print(f"{outcome.written} writes, the longest waits, and when each began: {', '.join(waits)}")
        assert_all_answered(outcome)
        assert outcome.gaps[0].seconds < LEASE_SECONDS * 2, "a writer waited for longer than two leases"
