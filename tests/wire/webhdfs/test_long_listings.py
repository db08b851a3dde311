"""A long directory is listed in slices, between which other requests are served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from milepost_server.basics.loop_time import TURN_SECONDS
from milepost_server.http.webhdfs import statuses
from milepost_server.model.paths import path_key
from milepost_server.model.records import Record, Store, store_key
from milepost_server.model.trees import Entry, TreePath
from tests.wire.support.in_process import in_process

FILES = 300


@pytest.mark.parametrize("op", ["LISTSTATUS", "LISTSTATUS_BATCH"])
@pytest.mark.parametrize("of_jobs", [False, True], ids=["files", "jobs"])
def test_no_request_waits_until_all_of_a_listing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str, of_jobs: bool
) -> None:
    """Each status takes a whole slice, as it seems; then the loop must turn after each."""
    with in_process(tmp_path) as running:
        state = running.rig.replica.journal.read().view.state
        entry = Entry(1, "2026-01-01T00:00:00.000Z", 1, data=b"")
        files = [TreePath(f"f{number:03}", (entry,)) for number in range(FILES)]
        changes: list[tuple[str, Record | None]] = [(store_key("job"), Store("job", epoch=1))]
        if of_jobs:
            changes += [(store_key(f"j{number:03}"), Store(f"j{number:03}")) for number in range(FILES - 1)]
        else:
            changes += [(path_key("job", each.path), each) for each in files]
        state.apply(changes)
        turns: list[int] = [0]
        made: list[int] = []
        plain = statuses.file_status

        def turned(loop: asyncio.AbstractEventLoop) -> None:
            turns[0] += 1
            loop.call_soon(turned, loop)

        def slow(entry: Entry, name: str) -> dict[str, Any]:
            if not made:
                turned(asyncio.get_running_loop())
            made.append(turns[0])
            running.rig.clock.advance(TURN_SECONDS)
            return plain(entry, name)

        monkeypatch.setattr(statuses, "file_status", slow)
        answer = running.http.get("/webhdfs/v1/jobs/" + ("" if of_jobs else "job/"), params={"op": op})
        assert answer.text.count('"pathSuffix"') == FILES
        assert len(made) == FILES
        assert max(made.count(turn) for turn in set(made)) <= 2
