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

_DEADLINE_SECONDS = 2400


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("batches", "share"),
    [pytest.param(80, 0.04, id="one in 25"), pytest.param(300, 0.01, id="one in 100", marks=pytest.mark.slow)],
)
def test_a_query_lives_through_batches_of_which_a_share_of_the_writes_fails(
    spark: SparkSession, name: str, services: Services, tmp_path: Path, batches: int, share: float
) -> None:
    server = s3.shared(services)
    with failing_s3(server.endpoint_url, seed=300, share=share) as failing:
        service = ServerProcess(
            tmp_path / "service",
            *ALL_AS_BLOBS,  # each file of the checkpoint is a PUT
            pointers=f"embedded:{tmp_path}/service/pointers",
            blobs=server.url(s3.BUCKET, f"tests/{name}", failing.url),
            environment=ALL_RIGHTS.environment,
        )
        with service.start():
            place = Place(spark, service.url, name, tmp_path)
            write_input(place.input, batches)
            with place.lead() as job:
                query = place.start(job, job.files(place.output), "aggregation")
                assert job.awaitTermination(query, _DEADLINE_SECONDS), "the query did not end in time"
            published = published_rows(service.url, name, Path(place.output))
    print(f"{failing.writes} writes, of which failed: {dict(failing.met)}")
    assert published == dict(enumerate(KINDS["aggregation"].expected(batches)))
    assert failing.writes > 5 * batches
    assert set(failing.met) == {"500", "503", "409", "reset", "lost answer"}
