"""A release from its first day to its last: installed, tried out, upgraded and rolled back under load, uninstalled."""

from __future__ import annotations

import time

import pytest

from parts.load import Outcome
from parts.node.node import Node
from parts.node.release import Release
from parts.node.writing import WritingPod

LEASE_SECONDS = 15.0
"""The chart's own."""

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


def test_a_release_is_installed_tried_upgraded_rolled_back_and_removed(node: Node, release: Release) -> None:
    began = time.monotonic()
    release.install("1")
    with WritingPod(node, release, "life", "1") as writing:
        first = time.monotonic() - began
        print(f"helm install to writes from another Pod: {first:.1f} s")
        told = release.test()
        assert "wrote, replaced, read and removed a state" in told
        assert "leads to the" in told

        upgraded, rolled_back = time.monotonic(), 0.0
        release.upgrade("2")
        assert release.images() == {"local.test/milepost:2"}
        writing.wait_for_write_after(time.monotonic())
        rolled_back = time.monotonic()
        release.rollback()
        assert release.images() == {"local.test/milepost:1"}
        writing.wait_for_write_after(time.monotonic())
        outcome = writing.finish()
    print(f"{outcome.written} writes; gap {outcome.gap_after(rolled_back):.2f} s in the rollback, longest of all ")
    print(f"{outcome.gap_after(upgraded):.2f} s")
    assert_all_answered(outcome)
    assert outcome.gap_after(upgraded) < LEASE_SECONDS / 2, "a lease ran out, where it should have been handed over"

    told = release.uninstall()
    left = release.left_behind()
    assert f"lease/{release.name}" in left
    assert any(each.startswith(f"configmap/{release.name}-") for each in left)
    assert {each.partition("/")[0] for each in left} == {"lease", "configmap"}

    release.install("1")
    with WritingPod(node, release, "again", "1") as writing:
        assert_all_answered(writing.finish())
    listed = node.kubectl("get", "pods", f"--namespace={release.namespace}")
    assert "Running" in listed


def assert_all_answered(outcome: Outcome) -> None:
    """Nothing that was acknowledged is lost, and no error came through the SDK."""
    assert outcome.written > 0
    assert list(outcome.errors) == []
    assert list(outcome.lost) == []
