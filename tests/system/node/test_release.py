"""A release from its first day to its last: installed, tried out, upgraded and rolled back under load, uninstalled."""

from __future__ import annotations

import re
import shlex
import time

import pytest

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.release import Release
from testbed.cluster.writing import WritingPod
from testbed.load import Outcome
from tests.docs.blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "start" / "kubernetes.md"

LEASE_SECONDS = 60.0
"""Far longer than anything takes that does not wait for its end."""

FIRST_TEST_SECONDS = 300.0
"""Helm's own limit for a test."""

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


def test_a_release_is_installed_tried_upgraded_rolled_back_and_removed(node: KubernetesCluster, namespace: str) -> None:
    lease = {"leaseDuration": LEASE_SECONDS, "renewDeadline": LEASE_SECONDS * 2 / 3}
    release = Release(node, namespace, {"pointers": {"kubernetes": lease}})
    began = time.monotonic()
    release.install("1")
    with WritingPod(node, release, "first", "1"):
        print(f"helm install to writes from another Pod: {time.monotonic() - began:.1f} s")
    with WritingPod(node, release, "life", "1") as writing:
        output = looked_at(node, namespace)
        assert 'deployment "milepost" successfully rolled out' in output
        assert re.search(shown(namespace), output), output
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


def looked_at(node: KubernetesCluster, namespace: str) -> str:
    """What is printed by what docs/start/kubernetes.md says to run once the chart is installed."""
    (rollout, test) = next(block for block in blocks_of(PAGE) if "rollout status" in block.text).text.splitlines()
    kubectl, *asked = shlex.split(rollout.replace("-n milepost ", f"-n {namespace} "))
    helm, *tried = shlex.split(test.replace("-n milepost ", f"-n {namespace} "))
    assert (kubectl, helm) == ("kubectl", "helm")
    return node.kubectl(*asked) + node.helm(*tried, deadline=FIRST_TEST_SECONDS)


def shown(namespace: str) -> str:
    """A pattern for what the page says is printed: the namespace, the leader's address and the term are its own."""
    (sample,) = [block.text for block in blocks_of(PAGE) if block.language == "text"]
    pattern = re.escape(sample.replace(".milepost:", f".{namespace}:"))
    return re.sub(r"10\\.244\\.0\\.7|(?<=term\\ )1", r"[0-9.]+", pattern)


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
