"""A job of Spark goes on in another cell between two batches: the sums are exact, and nobody changes its address."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

import milepost
from milepost.errors import JobElsewhere
from milepost.moving import move
from milepost.wire import job_epoch_header
from tests.client.conftest import cell
from tests.client.test_cells import listed
from tests.spark.jobs import Place
from tests.spark.test_lead import Publisher
from tests.spark.trials.queries import KINDS, write_input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_job_is_moved_between_two_batches(spark: SparkSession, name: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        cells = {each: stack.enter_context(cell(tmp_path / each, each, "a,b")) for each in ("a", "b")}
        place = Place(spark, listed(**cells), name, tmp_path)
        write_input(place.input, 2)
        publisher = Publisher()
        place.run(publisher, "aggregation")
        client = stack.enter_context(milepost.Client(place.url, timeout=60.0))
        old = client.of_job(name).cell
        new = "b" if old == "a" else "a"
        with milepost.Client(cells[old].url) as late, late.session(holder="late") as session:
            store = session.store(name).under(1)
            assert move(client, name, new) is not None
            with pytest.raises(JobElsewhere, match=f"was moved to the cell '{new}'"):
                store.files.write("checkpoint/late", b"late")
        late_write = httpx.put(
            f"{cells[old].url}/webhdfs/v1/jobs/{name}/checkpoint/late?op=CREATE",
            headers={job_epoch_header(name, 1): "x"},
            timeout=60.0,
        )
        assert (late_write.status_code, late_write.json()["RemoteException"]["exception"]) == (
            403,
            "AccessControlException",
        )
        place.add_input(4)
        place.run(publisher, "aggregation")
        assert publisher.rows == dict(enumerate(KINDS["aggregation"].expected(4)))
        assert [context.batchId for context in publisher.contexts] == [0, 1, 2, 3]
        assert [context.epoch for context in publisher.contexts] == [1, 1, 3, 3]
        assert client.of_job(name).cell == new
        assert [each.kind for each in client.job_history(name)].count("batch-committed") == 4
