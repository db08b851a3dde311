"""A directory of a hundred thousand files is listed a page at a time, each made as quickly as the first."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from milepost_server.memory.lookup import Lookup
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt, Record, Store, store_key
from milepost_server.model.trees import Entry, Tree, TreePath
from milepost_server.rules.answers import entry_body
from milepost_server.rules.trees.visibility import shown
from tests.wire.support.in_process import in_process

FILES = 100_000


def test_a_page_costs_the_same_however_many_files_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_process(tmp_path) as running:
        state = running.rig.replica.journal.read().view.state
        entry = Entry(1, "2026-01-01T00:00:00.000Z", 1, sha256="0" * 64, data=b"")
        records = [TreePath("d", (Entry(1, "2026-01-01T00:00:00.000Z", 1, directory=True),))]
        records += [TreePath(f"d/f{number:06}", (entry,)) for number in range(FILES)]
        changes: list[tuple[str, Record | None]] = [(store_key("job"), Store("job", epoch=1))]
        state.apply(changes + [(path_key("job", record.path), record) for record in records])
        looked, counter = [0], count(1)

        def counted(view: Lookup, store: Store, tree: Tree, path: str) -> Entry | Corrupt | None:
            looked[0] = next(counter)
            return shown(view, store, tree, path)

        monkeypatch.setattr("milepost_server.operations.trees.shown", counted)
        found: list[str] = []
        token = None
        for _ in range(FILES // 1000):
            before = looked[0]
            query = {"under": "d", **({} if token is None else {"token": token})}
            answer = running.http.get("/v1/stores/job/files", params=query)
            page = answer.json()
            assert len(answer.content) < 1000 * 400
            assert looked[0] - before <= 1000 + 3
            found += [file["path"] for file in page["files"]]
            token = page["next"]
        assert token is None
        assert found == [record.path for record in records[1:]]
        assert page["files"][-1] == entry_body(records[-1].path, entry)
