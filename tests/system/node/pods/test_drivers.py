"""A driver's Pod is deleted, or stands still with its executors' Pods: a standby goes on, and sums are exact.

Driver and executors are Pods by Spark's own support for Kubernetes, as deploy/spark has it, and share no disk. State is
in RocksDB. That no write of a fenced epoch was accepted is read from the journal.
"""

from __future__ import annotations

import re
import time

import pytest

from testbed.cluster.pods import Pod
from testbed.cluster.release import Release
from tests.spark.clusters.topics import totals
from tests.system.node.pods.application import Application
from tests.system.node.pods.job import KEYS, ROWS
from tests.system.node.pods.journal import WatchedJournal

pytestmark = [pytest.mark.node, pytest.mark.spark, pytest.mark.timeout(1800)]

_AGAIN = 3
"""So many batches of the successor are looked at."""


def test_a_standby_goes_on_where_a_deleted_driver_was(application: Application, journal: WatchedJournal) -> None:
    """It is deleted by force in the midst of a batch. Its executors saw no file of it, and go with it."""
    application.start(HALT=2)
    first, _ = application.wait_for(lambda _, event: event["event"] == "halted", "the first driver halts")
    application.wait_for(lambda pod, event: event["event"] == "standing by" and pod != first, "another one stands by")
    executors = application.executors(first)
    assert len(executors) >= 2  # Spark asks for one more where the first answer took too long
    for pod in (first, *executors):
        assert application.volumes(pod) <= {"configMap", "emptyDir", "projected"}, "there is a disk that others may see"
    _, seen = application.wait_for(lambda _, event: event["event"] == "seen", "what the executors see")
    assert len(seen["by"]) >= 2
    assert {executor for executor, _ in seen["by"]} <= set(executors)
    assert {saw for _, saw in seen["by"]} == {False}

    deleted = time.monotonic()
    application.pod(first).delete_at_once()
    second, leading = application.wait_for(lambda _, event: event.get("epoch", 1) > 1, "another one leads")
    leads = time.monotonic() - deleted
    application.wait_for(lambda _, event: event["event"] == "batch" and event["epoch"] > 1, "it publishes")
    publishes = time.monotonic() - deleted
    last = 2 + _AGAIN
    application.wait_for(lambda _, event: event["event"] == "batch" and event["batch"] == last, "it goes on")
    assert second != first
    assert leading["epoch"] >= 2
    assert application.totals(last) == expected(last)
    application.wait_for_no_executors(first)
    assert {1, 2} <= journal.grants(application.name).keys()
    assert journal.late(application.name) == []
    application.end()
    assert application.refusals() == []
    print(f"after the deletion: {leads:.1f} s to the next leader, {publishes:.1f} s to its first batch")


@pytest.mark.own_node
def test_a_fenced_driver_and_its_executors_are_refused(
    application: Application, release: Release, journal: WatchedJournal
) -> None:
    """All stand still, their tasks with open state, until another driver leads. Then first the executors go on."""
    application.start(SLOW=1000)
    application.wait_for(lambda _, event: event["event"] == "batch", "the first batch is published")
    first, _ = application.wait_for(lambda _, event: event["event"] == "leading", "the first one leads")
    application.wait_for(lambda pod, event: event["event"] == "standing by" and pod != first, "another one stands by")
    count = told(application, "working")
    application.wait_for(lambda *_: told(application, "working") > count, "its tasks are at work")
    zombies = [application.pod(name) for name in application.executors(first)]
    assert len(zombies) >= 2
    driver = application.pod(first)
    for pod in (driver, *zombies):
        pod.freeze()
    frozen = time.monotonic()
    application.wait_for(lambda _, event: event.get("epoch", 1) > 1, "another one leads")
    leads, before = time.monotonic() - frozen, refused(release)
    for pod in zombies:
        pod.thaw()
    driver.wait_until(lambda: refused(release) > before, "and its executors write nothing that is refused", 120)
    driver.thaw()
    _, end = application.wait_for(lambda pod, event: event["event"] == "ended" and pod == first, "it ends")
    later = [event["batch"] for _, event in application.events() if event["event"] == "batch" and event["epoch"] > 1]
    last = max(later, default=0) + _AGAIN
    application.wait_for(lambda _, event: event["event"] == "batch" and event["batch"] == last, "the other one goes on")
    assert application.totals(last) == expected(last)
    grants, births = journal.grants(application.name), journal.births(application.name)
    assert {1, 2} <= grants.keys()
    assert {1, 2} <= {birth.epoch for birth in births}
    assert journal.late(application.name) == []
    print(f"{leads:.1f} s to the next leader; the fenced driver ended by {end['error']}")
    print(
        f"{refused(release) - before} requests of epoch 1 were refused after the grant of epoch 2; "
        f"{len(births)} files and directories in the journal, none of them late"
    )
    application.end()
    assert application.refusals() == []


def expected(last: int) -> dict[str, tuple[int, int]]:
    """Sum and number of the rows of each key after a batch."""
    return totals((f"k{number % KEYS}", number) for number in range(ROWS * (last + 1)))


def told(application: Application, name: str) -> int:
    """How often this event was told."""
    return sum(event["event"] == name for _, event in application.events())


def refused(release: Release) -> int:
    """How many requests the replicas have answered with 403, as their metrics say."""
    return sum(_refused_by(release.pod(name)) for name in release.pods())


def _refused_by(pod: Pod) -> int:
    page = "http://127.0.0.1:7070/metrics"
    metrics = pod.execute("python3", "-c", f"import urllib.request as u; print(u.urlopen('{page}').read().decode())")
    counts = re.findall(r'^milepost_requests_total{.*"403"} (\S+)$', metrics, re.MULTILINE)
    return sum(int(float(count)) for count in counts)
