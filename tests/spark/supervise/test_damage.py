"""``milepost run`` over stored files that are damaged: refused by name, or gone back to a snapshot if that is
wanted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.spark.damaging import blob_of, flip
from tests.spark.supervise.sums import Sums
from tests.spark.supervise.supervised import Supervised, names

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_a_job_goes_back_when_it_is_told_to_and_its_state_is_exact(
    java_options: str, jar: Path, name: str, sums: Sums, tmp_path: Path
) -> None:
    query = f"{name}/checkpoint/queries/sums"
    with ServerProcess(tmp_path, *ALL_AS_BLOBS) as server:
        server.start()
        with Supervised(server.url, name, tmp_path / "first", [], sums.command(java_options, jar, 3, 0)) as run:
            assert run.ended() == 0, run.log()[-6000:]
        last = max(int(batch) for batch in names(server, f"{query}/commits") if batch.isdigit())
        damaged = f"checkpoint/queries/sums/state/0/0/{last + 1}.zip"
        flip(blob_of(server, name, damaged))

        job = sums.command(java_options, jar, last + 3, 0)
        with Supervised(server.url, name, tmp_path / "refused", ["--restarts", "1"], job) as run:
            assert run.ended() == 65, run.log()[-6000:]
            assert len(run.starts()) == 1, "its sizes are right, so it was started, and failed"
            assert f"{damaged} (the stored bytes do not match their digest)" in run.log()

        options = ["--digests", "--if-damaged", "fall-back"]
        with Supervised(server.url, name, tmp_path / "back", options, job) as run:
            assert run.ended() == 0, run.log()[-6000:]
            assert "going back to batch" in run.log()
    sums.check(last + 3)
