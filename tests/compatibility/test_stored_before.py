"""What an earlier version acknowledged is served by this one as it was, and work goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.history import Teller
from tests.compatibility.restored import Restore, into_embedded, into_kubernetes, into_zookeeper, observed
from tests.contracts.places import Services
from tests.wire.support.in_process import in_process

EACH = pytest.mark.parametrize(
    ("name", "restore"),
    [
        pytest.param("embedded", into_embedded, id="embedded"),
        pytest.param("zookeeper", into_zookeeper, id="zookeeper"),
        pytest.param("kubernetes", into_kubernetes, id="kubernetes", marks=pytest.mark.kubernetes),
    ],
)

ENTRIES = 300
LARGEST = {
    "saved": (AT := "2026-01-01T00:00:00.000Z"),
    "source": "flights",
    "entries": [
        entry
        for batch in range(ENTRIES)
        for entry in (
            {"kind": "stop-requested", "at": AT, "holder": "x" * 200, "reason": "x" * 200, "by": "x" * 400},
            {"kind": "batch-committed", "at": AT, "batch": batch, "directory": "x" * 500},
        )
    ],
}
"""A history of a job that had none yet, larger than one commit may be: each pointer store takes what is left of it."""


@EACH
def test_what_was_stored_is_served_as_it_was_and_goes_on(
    tmp_path: Path, services: Services, name: str, restore: Restore
) -> None:
    with in_process(tmp_path, build=restore(tmp_path, services)) as here:
        service = Teller(here.http)
        assert service.observe() == observed(name)
        assert here.rig.replica.journal.damaged == []

        again = service.add_first(attempt=2)
        assert again.headers["milepost-replayed"] == "true"
        first = next(each for each in observed(name)["flights"]["handles"]["handles"] if each["name"] == "first")
        assert again.json()["version"] == first["version"]

        latest = here.http.get("/v1/stores/flights/handles/latest").json()
        path, headers = "/v1/stores/flights/handles/latest", {"Milepost-Session": "b", "Milepost-Epoch": "2"}
        octets = {"Content-Type": "application/octet-stream", "If-Match": f'"{latest["version"]}"'}
        replaced = here.http.put(path, content=b"third", headers={**headers, **octets})
        assert replaced.status_code == 200, replaced.text
        assert here.http.get(f"{path}/state").content == b"third"
        fenced = here.http.delete(path, headers={**headers, "Milepost-Epoch": "1"})
        assert fenced.json()["type"] == "urn:milepost:fenced"
        job = here.http.post("/v1/jobs/cleared/history", json=LARGEST, headers={"Milepost-Session": "b"})
        assert job.status_code == 200, job.text
        said, newest = here.http.get("/v1/jobs/cleared/history", params={"limit": 2}).json()["entries"]
        assert (said["entries"], newest["batch"]) == (job.json()["entered"], ENTRIES - 1)
        held = here.http.post("/v1/stores/flights/epoch", json={}, headers={"Milepost-Session": "a"})
        assert held.json()["type"] == "urn:milepost:held"
        mine = {"Milepost-Session": "a"}
        freed = here.http.delete("/v1/sessions/b")
        assert freed.status_code == 204
        assert here.http.post("/v1/stores/flights/epoch", json={}, headers=mine).json()["epoch"] == 3
