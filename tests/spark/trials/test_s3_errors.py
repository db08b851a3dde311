"""S3 fails now and then, as it does: no query ends for it, and each batch is there once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.seaweedfs import ALL_RIGHTS
from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.contracts.places import Services
from tests.spark.jobs import Place
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import KINDS, write_input
from tests.support.network.failing_s3 import failing_s3
from tests.support.servers import s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

BATCHES = 300
_DEADLINE_SECONDS = 2400


@pytest.mark.timeout(3000)
def test_a_query_lives_through_three_hundred_batches_of_which_one_write_in_a_hundred_fails(
    spark: SparkSession, name: str, services: Services, tmp_path: Path
) -> None:
    server = s3.shared(services)
    with failing_s3(server.endpoint_url, seed=300) as failing:
        service = ServerProcess(
            tmp_path / "service",
            *ALL_AS_BLOBS,  # each file of the checkpoint is a PUT
            pointers=f"embedded:{tmp_path}/service/pointers",
            blobs=server.url(s3.BUCKET, f"tests/{name}", failing.url),
            environment=ALL_RIGHTS.environment,
        )
        with service.start():
            place = Place(spark, service.url, name, tmp_path)
            write_input(place.input, BATCHES)
            with place.lead() as job:
                query = place.start(job, job.files(place.output), "aggregation")
                assert job.awaitTermination(query, _DEADLINE_SECONDS), "the query did not end in time"
            published = published_rows(service.url, name, Path(place.output))
    print(f"{failing.writes} writes, of which failed: {dict(failing.met)}")
    assert published == dict(enumerate(KINDS["aggregation"].expected(BATCHES)))
    assert failing.writes > 5 * BATCHES
    assert set(failing.met) == {"500", "503", "409", "reset", "lost answer"}
