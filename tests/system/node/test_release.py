"""A release from its first day to its last: installed, tried out, upgraded and rolled back under load, uninstalled."""

from __future__ import annotations

import re
import time

import pytest

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.release import Release
from testbed.cluster.writing import WritingPod
from testbed.load import Outcome

LEASE_SECONDS = 60.0
"""Far longer than anything takes that does not wait for its end."""

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


def test_a_release_is_installed_tried_upgraded_rolled_back_and_removed(node: KubernetesCluster, namespace: str) -> None:
    lease = {"leaseDuration": LEASE_SECONDS, "renewDeadline": LEASE_SECONDS * 2 / 3}
    release = Release(node, namespace, {"pointers": {"kubernetes": lease}})
    began = time.monotonic()
    release.install("1")
    with WritingPod(node, release, "life", "1") as writing:
        first = time.monotonic() - began
        print(f"helm install to writes from another Pod: {first:.1f} s")
        output = release.test()
        assert "wrote, replaced, read and removed a state" in output
        assert "leads to the" in output
        first_term = term(output)

        upgraded = time.monotonic()
        release.upgrade("2")
        assert release.images() == {"local.test/milepost:2"}
        writing.wait_for_write_after(time.monotonic())
        rolled_back = time.monotonic()
        release.rollback()
        assert release.images() == {"local.test/milepost:1"}
        writing.wait_for_write_after(time.monotonic())
        outcome = writing.finish()
    gaps = outcome.gap_after(upgraded), outcome.gap_after(rolled_back)
    print(f"{outcome.written} writes; longest gap {gaps[0]:.2f} s from the upgrade on, {gaps[1]:.2f} s in the rollback")
    assert_all_answered(outcome)
    assert outcome.gap_after(upgraded) < LEASE_SECONDS / 2, "a lease ran out, where it should have been handed over"

    release.uninstall()
    left = release.left_behind()
    assert f"lease/{release.name}" in left
    assert any(each.startswith(f"configmap/{release.name}-") for each in left)
    others = [each for each in left if each.partition("/")[0] not in ("lease", "configmap")]
    assert others == [f"pod/{release.name}-test"], "beside the pointers, only what Helm leaves of its test"

    release.install("1")
    assert term(release.test()) > first_term + 1, "the journal that was left goes on"


def term(output: str) -> int:
    """The term that the chart's test printed."""
    found = re.search(r"leads at term (\d+)", output)
    assert found is not None, output
    return int(found[1])


def assert_all_answered(outcome: Outcome) -> None:
    """Nothing that was acknowledged is lost, and no error came through the SDK."""
    assert outcome.written > 0
    assert list(outcome.errors) == []
    assert list(outcome.lost) == []
