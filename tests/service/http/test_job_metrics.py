"""The metrics of single jobs: what they say, of how many jobs, and of none where the replica does not lead."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from milepost_server.http.job_metrics import MOST_JOBS, JobMetrics
from milepost_server.model.records import Corrupt, Record, Store, store_key
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.sessions import EndSession
from tests.service.acting import STORE, actor
from tests.support.files import put
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio


async def measured(running: Rig, *, named: bool = True) -> dict[str, dict[str, float]]:
    """The numbers of each metric by job; of those without a label, by an empty name."""
    text = (await JobMetrics(running.operations.jobs).text(named=named)).decode()
    return {
        family.name: {sample.labels.get("store", ""): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(text)
    }


async def of_job(running: Rig, name: str = STORE) -> dict[str, float]:
    """The numbers of one job, by metric without the common prefix."""
    found = await measured(running)
    return {metric.removeprefix("milepost_job_"): of[name] for metric, of in found.items() if name in of}


async def test_they_say_who_leads_how_far_it_is_and_what_is_damaged(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        led = {"led": 1.0, "lost": 0.0, "epoch": 1.0, "standbys": 0.0, "damaged_records": 0.0}
        assert await of_job(running) == led
        await put(running, "checkpoint/commits/7", epoch, b"v1", inline=True)
        (batch,) = (await running.operations.jobs.describe(STORE)).answer.body["snapshots"]
        taken = datetime.fromisoformat(batch["taken"]).timestamp()
        of_batch = {"last_batch": 7.0, "last_batch_timestamp_seconds": taken}
        assert await of_job(running) == {**led, **of_batch}
        await running.operations.perform(EndSession(Attempt("a")))
        assert await of_job(running) == {**led, **of_batch, "led": 0.0, "lost": 1.0}
        running.replica.journal.read().view.state.apply([(store_key(STORE), Corrupt(STORE, "damaged"))])
        assert await of_job(running) == {"standbys": 0.0, "damaged_records": 1.0, **of_batch}


async def test_the_first_jobs_by_name_have_series_and_the_others_are_counted(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        names = [f"job-{number:04}" for number in range(MOST_JOBS + 5)]
        records: list[tuple[str, Record | None]] = [(store_key(name), Store(name, epoch=1)) for name in names]
        running.replica.journal.read().view.state.apply([*records, (store_key("a"), Store("a"))])
        found = await measured(running)
        assert list(found["milepost_job_led"]) == names[:MOST_JOBS]
        assert (found["milepost_jobs"], found["milepost_jobs_left_out"]) == ({"": MOST_JOBS + 5.0}, {"": 5.0})
        found = await measured(running, named=False)
        assert not any(of for metric, of in found.items() if metric.startswith("milepost_job_"))
        assert found["milepost_jobs_left_out"] == found["milepost_jobs"] == {"": MOST_JOBS + 5.0}


async def test_a_replica_that_does_not_lead_has_no_numbers(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).campaign()
        await running.stop()
        found = await measured(running)
        assert "milepost_job_led" in found
        assert not any(found.values())
