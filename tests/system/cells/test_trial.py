"""A cut of the trial; ``make test-cells`` plays a hundred rounds."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from milepost_server.model.records import Store
from milepost_server.model.trees import TreePath
from tests.system.cells.journals import wrong
from tests.system.cells.trial import CELLS, Trial, Wrong

pytestmark = pytest.mark.long


def test_a_job_stays_whole_and_in_one_cell_whatever_ends(tmp_path: Path) -> None:
    with Trial(tmp_path, seed=7) as trial:
        assert trial.play(3).rounds == 3
        check_that_journals_are_read(trial)
        trial.account.sure["checkpoint/never"] = b"written"
        with pytest.raises(Wrong, match="acknowledged files are lost"):
            trial.check()


def check_that_journals_are_read(trial: Trial) -> None:
    """What must never be in a journal is found there."""
    here, records, job = trial.check(), trial.journals.records(), trial.name
    there = next(cell for cell in CELLS if cell != here and any(key == f"stores/{job}" for key, _ in records[cell]))
    store = next(record for _, record in reversed(records[here]) if isinstance(record, Store) and record.epoch_session)
    path = next(record for _, record in reversed(records[here]) if isinstance(record, TreePath))
    late = msgspec.structs.replace(path, entries=(msgspec.structs.replace(path.entries[-1], created_revision=10**6),))
    twice = msgspec.structs.replace(store, epoch_session="another", move=None)
    for record, complaint in ((late, "after its tombstone"), (twice, "is granted twice")):
        key = f"stores/{job}" if record is twice else f"stores/{job}/files/late"
        found = wrong({**records, there: [*records[there], (key, record)]}, job, set())
        assert [complaint in each for each in found] == [True], found
    assert wrong(records, job, {10**6}) == ["epoch 1000000 is in no journal"]
