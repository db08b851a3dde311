"""A long directory is listed in slices, between which other requests are served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from service.basics.slices import SLICE_SECONDS
from service.http.webhdfs import statuses
from service.rules.records import Store, store_key
from service.rules.stored.paths import path_key
from service.rules.stored.trees import Entry, TreePath
from tests.wire.support.in_process import in_process
from tests.wire.webhdfs.hadoop import Tree

FILES = 300


@pytest.mark.parametrize("op", ["LISTSTATUS", "LISTSTATUS_BATCH"])
def test_no_request_waits_until_all_of_a_listing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    """Each status takes a whole slice, as it seems; then the loop must turn after each."""
    with in_process(tmp_path) as running:
        state = running.rig.replica.journal.read().view.state
        entry = Entry(1, "2026-01-01T00:00:00.000Z", 1, data=b"")
        files = [TreePath(f"f{number:03}", (entry,)) for number in range(FILES)]
        state.apply([(store_key("job"), Store("job", epoch=1)), *((path_key("job", f.path), f) for f in files)])
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
            running.rig.clock.advance(SLICE_SECONDS)
            return plain(entry, name)

        monkeypatch.setattr(statuses, "file_status", slow)
        answer = Tree(running.http, "job").ask("GET", "", op)
        assert answer.text.count('"pathSuffix"') == FILES
        assert len(made) == FILES
        assert max(made.count(turn) for turn in set(made)) <= 2
