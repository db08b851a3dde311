"""A job that begins with one server goes on with several, under the address that stands in its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import milepost.spark
from milepost.core.checkpoint_location import HEADER, checkpoint_location
from testbed.replicated import ReplicatedTestbed
from tests.spark.jobs import Place, finish
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import KINDS, write_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

_FILES = 4


def test_a_set_is_found_by_the_address_of_its_first_server_and_its_leader_may_die(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    with ReplicatedTestbed(tmp_path / "set") as replicas:
        leader = replicas.start().leader()
        alone = Place(spark, leader.url, name, tmp_path)
        write_input(alone.input, 2)
        with alone.lead() as job:
            location = job.checkpointLocation
            finish(job, alone.start(job, job.files(alone.output), "aggregation"))
        alone.add_input(_FILES)
        others = [url for url in replicas.urls if url != leader.url]
        with milepost.spark.lead(spark, [*others, leader.url], name, ttl=60.0, wait=60.0) as job:
            assert job.checkpointLocation == location == checkpoint_location([leader.url], name, 1).url
            assert spark.conf.get("dfs.namenode.http-address.127.0.0.1.r1") == leader.url.removeprefix("http://")
            assert spark.conf.get(HEADER) == f"X-Milepost-{name}-2"
            function = job.files(alone.output)

            def publish(frame: DataFrame, batch: int) -> None:
                if batch == 2:
                    leader.kill()
                function(frame, batch)

            finish(job, alone.start(job, publish, "aggregation"))
        published = published_rows(others[0], name, Path(alone.output))
    assert published == dict(enumerate(KINDS["aggregation"].expected(_FILES)))
