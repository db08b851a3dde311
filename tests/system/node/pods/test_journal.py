"""What tells a late write from watched ConfigMaps would tell one if there were one."""

from __future__ import annotations

import json
from collections.abc import Iterator

from milepost_backends.kubernetes.configmaps.entries import encode as entry
from milepost_server.model.paths import path_key
from milepost_server.model.records import Store, encode, store_key
from milepost_server.model.trees import Entry, TreePath
from tests.spark.clusters.written import Birth, Journal
from tests.system.node.pods.journal import written

_TIME = "2026-01-01T00:00:00.000Z"


class _Given(Journal):
    def __init__(self, text: str) -> None:
        self._text = text

    def records(self) -> Iterator[tuple[str, object]]:
        return written(self._text)


def test_a_late_write_would_be_told() -> None:
    """Also one that was overwritten since, and one in a ConfigMap that is gone; half a document at the end is not."""
    granted = store(2, 20)
    text = printed(store(1, 10), file("early", 11, 1)) + printed(granted, file("early", 11, 1))
    assert _Given(text).grants("flights") == {1: 10, 2: 20}
    assert _Given(text).late("flights") == []
    late = printed(granted, file("late", 21, 1))
    gone = printed(granted, entry(path_key("flights", "late"), None))
    half = printed(granted, file("later", 22, 1))[:-9]
    for more in (late, late + gone, late + gone + half):
        assert _Given(text + more).late("flights") == [Birth("late", 21, 1)]


def store(epoch: int, granted: int) -> tuple[str, str]:
    """The entry of the record of the job's store."""
    key = store_key("flights")
    return entry(key, encode(key, Store("flights", epoch=epoch, granted=granted)))


def file(path: str, created_revision: int, epoch: int) -> tuple[str, str]:
    """The entry of the record of a file."""
    key = path_key("flights", path)
    return entry(key, encode(key, TreePath(path, (Entry(created_revision, _TIME, epoch),))))


def printed(*entries: tuple[str, str]) -> str:
    """A ConfigMap as kubectl prints it."""
    return json.dumps({"kind": "ConfigMap", "metadata": {"name": "segment"}, "data": dict(entries)}, indent=4) + "\n"
