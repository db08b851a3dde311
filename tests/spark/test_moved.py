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
from tests.spark.output.published import published_rows
from tests.spark.test_lead import Publisher
from tests.spark.trials.queries import KINDS, write_input
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

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


@pytest.mark.long
def test_a_driver_that_slept_through_the_move_publishes_nothing(java_options: str, name: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        cells = {each: stack.enter_context(cell(tmp_path / each, each, "a,b")) for each in ("a", "b")}
        write_input(tmp_path / "in", 4)

        def driver(which: str, pause: str = "") -> Driver:
            setup = Setup(
                url=listed(**cells),
                store=name,
                kind="aggregation",
                provider="hdfs",
                input=str(tmp_path / "in"),
                output=str(tmp_path / "out"),
                scratch=str(tmp_path / which),
                events=str(tmp_path / f"{which}.events"),
                java_options=java_options,
                go=str(tmp_path / f"{which}.go"),
                pause=pause,
                pause_at=2,
                blind=bool(pause),
            )
            return stack.enter_context(Driver(setup))

        sleeper = driver("sleeper", pause="before publication")
        assert sleeper.wait_for("paused")["batch"] == 1
        sleeper.freeze()
        client = stack.enter_context(milepost.Client(listed(**cells), timeout=60.0))
        new = "b" if client.of_job(name).cell == "a" else "a"
        assert move(client, name, new, wait=120.0) is not None
        heir = driver("heir")
        leading = heir.wait_for("leading")
        assert (leading["epoch"], leading["resumes_at"], leading["published"]) == (3, 1, 0)
        heir.wait_for("published")
        sleeper.thaw()
        refused = sleeper.wait_for("ended", "finished").get("error")  # whichever of its calls comes first
        assert refused in ("JobElsewhere", "SessionExpired"), sleeper.failed("was not kept out")
        assert [each["batch"] for each in sleeper.events() if each["event"] == "published"] == [0]
        assert heir.wait() == 0, heir.failed("did not finish")
        assert [each["batch"] for each in heir.events() if each["event"] == "published"] == [1, 2, 3]
        rows = published_rows(cells[new].url, name, tmp_path / "out")
        assert rows == dict(enumerate(KINDS["aggregation"].expected(4)))
