"""Streams over published batches and over a job's history, across restarts, restores and expiry."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import milepost
from tests.spark.datasource.reading import Follower
from tests.spark.jobs import Place, wait_until
from tests.spark.output.test_files import EXPECTED, run
from tests.spark.test_restore import go_back, of_batch

pytestmark = pytest.mark.spark


def by_batch(seen: list[list[Any]]) -> list[dict[int, list[tuple[int, int]]]]:
    """The rows of each batch of a stream, by the batch of the job."""
    found = []
    for rows in seen:
        each: dict[int, list[tuple[int, int]]] = {}
        for row in rows:
            each.setdefault(row.batch, []).append((row.k, row.w))
        found.append({batch: sorted(of) for batch, of in each.items()})
    return found


def test_a_stream_reads_each_batch_once_over_restarts_and_hears_of_a_restore(
    published: Place, client: milepost.Client
) -> None:
    follower, expected = Follower(published), EXPECTED(6)
    first = by_batch(follower.follow(maxBatchesPerTrigger=3))
    assert first == [dict(enumerate(expected[:3])), {3: expected[3]}]
    published.add_input(5)
    run(published)
    with follower.following() as query:
        wait_until(lambda: len(follower.seen) == 3)
        assert by_batch(follower.seen[2:]) == [{4: expected[4]}]
        go_back(client, published, of_batch(client, published, 2))
        with pytest.raises(StreamingQueryException, match="BatchesTakenBack") as error:
            query.awaitTermination(120)
    text = str(error.value)
    assert "3 to 4" in text
    epoch = re.search(r"acceptRestore set to (\d+)", text)
    assert epoch is not None

    published.add_input(6)
    run(published)
    again = by_batch(follower.follow(acceptRestore=epoch[1]))
    assert again == [{batch: expected[batch] for batch in (3, 4, 5)}]
    assert follower.follow() == []  # the restore is behind it

    with published.lead() as job:
        job.files(published.output)
        job.expire(before=5)
    with pytest.raises(StreamingQueryException, match=r"batches 1 to 4 .* have expired"):
        Follower(published, "too late").follow(startingBatch=1)
    lossy = Follower(published, "too late").follow(startingBatch=1, failOnDataLoss="false")
    assert [sorted({row.batch for row in rows}) for rows in lossy] == [[5]]


@pytest.mark.later
def test_the_history_is_a_stream(published: Place) -> None:
    follower = Follower(published)
    (first,) = follower.follow(table="history")
    kinds = ["epoch-granted", *["batch-committed"] * 4, "epoch-ended"]
    assert [row.kind for row in first] == kinds
    assert follower.follow(table="history") == []
    published.add_input(5)
    run(published)
    (second,) = follower.follow(table="history")
    assert [row.kind for row in second] == ["epoch-granted", "batch-committed", "epoch-ended"]
    (after,) = Follower(published, "after").follow(table="history", after=first[4].id)
    assert [row.id for row in after] == [row.id for row in [first[5], *second]]
