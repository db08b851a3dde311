"""A cut of the trial; ``make test-cells`` plays a hundred rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.cells.trial import Trial, Wrong

pytestmark = pytest.mark.long


def test_a_job_stays_whole_and_in_one_cell_whatever_ends(tmp_path: Path) -> None:
    with Trial(tmp_path, seed=7) as trial:
        assert trial.play(3).rounds == 3
        trial.account.sure["checkpoint/never"] = b"written"
        with pytest.raises(Wrong, match="acknowledged files are lost"):
            trial.check()
