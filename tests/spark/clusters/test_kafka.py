"""Kafka as source and as sink, with the checkpoint in the tree of a job: a driver dies, and another one goes on.

A topic that was made anew is read by the command of docs/clusters.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed.ports import Port
from tests.spark.clusters.drivers import Drivers
from tests.spark.clusters.setup import COPY
from tests.spark.clusters.topics import Topics, rows, totals
from tests.spark.jobs import wait_until
from tests.spark.tour.owner import Owner

pytestmark = pytest.mark.spark

_PER_BATCH = 40


@pytest.mark.timeout(900)
def test_who_takes_over_reads_on_at_the_offsets_of_the_tree(job: Drivers, topics: Topics) -> None:
    """The first driver dies in the midst of batch 1; what it read then is read again, and nothing before that."""
    topics.make(job.setup.topic, 3)
    topics.put(job.setup.topic, rows(100))
    first = job.start(pause=1)
    first.wait_for("in batch")
    second = job.start(available_now=True)
    second.wait_for("standing by")
    first.kill()
    assert second.wait_for("leading")["epoch"] == 2
    second.wait_for("finished")
    assert [event["batch"] for event in second.events() if event["event"] == "batch"] == [1, 2]
    assert job.totals() == totals(rows(100))
    assert job.written.late(job.setup.store) == []


@pytest.mark.long
def test_the_sink_loses_nothing_and_repeats_what_was_in_flight(job: Drivers, topics: Topics) -> None:
    """Kafka has no place for a fence or a batch's number: what a driver sent before it died is sent again."""
    topics.make(job.setup.topic, 2)
    topics.make(f"{job.setup.topic}-copy", 1)
    source = rows(4 * _PER_BATCH)
    topics.put(job.setup.topic, source)
    copying = {"query": COPY, "target": f"{job.setup.topic}-copy", "per_batch": _PER_BATCH}
    first = job.start(slow=200, **copying)
    # Two tasks with 20 rows each, a row in 0.2 s: there are 3 s in which some of batch 1 are there, and not all.
    wait_until(lambda: topics.size(job.setup.topic + "-copy") > _PER_BATCH + 2)
    first.kill()
    sent = topics.size(job.setup.topic + "-copy")
    assert _PER_BATCH < sent < 2 * _PER_BATCH
    second = job.start(available_now=True, **copying)
    second.wait_for("finished")
    copied = topics.read(f"{job.setup.topic}-copy")
    assert set(copied) == {(key, str(number)) for key, number in source}
    assert set(copied.values()) == {1, 2}
    repeated = sum(times - 1 for times in copied.values())
    assert repeated == sent - _PER_BATCH
    print(f"{repeated} of {len(source)} rows were written twice")


@pytest.mark.long
def test_expired_offsets_are_told_before_the_query_starts(job: Drivers, topics: Topics) -> None:
    topics.make(job.setup.topic, 2)
    topics.put(job.setup.topic, [("a", number) for number in range(10)])  # one key, so all are in one partition
    job.start(available_now=True).wait_for("finished")
    topics.put(job.setup.topic, [("a", number) for number in range(10, 20)])
    (partition,) = [number for number, (_, end) in topics.ends(job.setup.topic).items() if end]
    topics.expire(job.setup.topic, partition, 15)

    nobody = Port()
    alone = job.start(kafka=nobody.address).wait_for("refused")
    assert f"Kafka at {nobody.address} did not say which records it has" in alone["detail"]

    told = _expired(job)
    assert told["lost"] == [[job.setup.topic, partition, 10, 15, 20]]
    for part in (f"partition {partition} of topic {job.setup.topic!r}", "offset 10 on", "earliest that there is is 15"):
        assert part in told["detail"]

    topics.remove(job.setup.topic)
    wait_until(lambda: topics.is_gone(job.setup.topic))
    assert [lost[2:] for lost in _expired(job)["lost"]] == [[10, 0, 0]]  # the other partition is wanted from 0 on
    topics.make(job.setup.topic, 2)
    topics.put(job.setup.topic, [("a", 7)])
    again = _expired(job)
    assert [lost[2:] for lost in again["lost"]] == [[10, 0, 1]]
    assert "made anew" in again["detail"]
    assert job.totals() == {"a": (45, 10)}

    offsets = json.dumps({job.setup.topic: {"0": 0, "1": 0}})
    said = Owner(job.setup.url).says("jobs", "restore", job.setup.store, "--batch", "0", "--offsets", offsets)
    assert f"source: the next batch is 1, from {job.setup.topic} 0:0 1:0 on" in said
    job.start(available_now=True).wait_for("finished")
    assert job.totals() == {"a": (45 + 7, 10 + 1)}


def _expired(job: Drivers) -> dict[str, Any]:
    driver = job.start(available_now=True)
    told = driver.wait_for("expired")
    assert driver.wait() == 0
    assert driver.event("started") is None
    return told
