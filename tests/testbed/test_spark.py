"""A standalone cluster that does not come about."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.process import ProcessFailed
from testbed.spark import Standalone

pytestmark = pytest.mark.spark


def test_a_worker_that_ends_is_told_with_its_log_and_not_waited_for(tmp_path: Path) -> None:
    cluster = Standalone(tmp_path / "cluster", hidden=tmp_path / "hidden", memory="much")
    (tmp_path / "hidden").mkdir()
    try:
        told = r"worker-\d ended with 1 before the master knew it\n--- its log ---\n."
        with pytest.raises(ProcessFailed, match=told):
            cluster.serve(60.0)
    finally:
        cluster.kill()
