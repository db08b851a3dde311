"""Room that runs out for real, in the middle of commits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import child
from tests.support.servers.small_disk import small_disk

pytestmark = pytest.mark.anyio

MODULE = "tests.backends.children.scarce_pointers"


async def report_of(place: Path, scarce: str, under: Sequence[str] = ()) -> dict[str, Any]:
    async with child(MODULE, scarce, str(place), str(place.parent / "crashed"), under=under) as scenario:
        report: dict[str, Any] = json.loads(await scenario.line())
    return report


async def test_a_full_disk_refuses_the_group_for_good(tmp_path: Path) -> None:
    """Also if the process dies right then: recovery does not find the group."""
    place = tmp_path / "place"
    place.mkdir()
    disk = small_disk(place, 1400)
    refuses_for_good(await (report_of(place, "pages") if disk is None else report_of(place, "disk", disk)))


async def test_a_full_database_refuses_the_group_for_good(tmp_path: Path) -> None:
    """By SQLite's own limit on the pages of a database, which needs no privilege and ends in the same error."""
    place = tmp_path / "place"
    place.mkdir()
    refuses_for_good(await report_of(place, "pages"))


def refuses_for_good(report: dict[str, Any]) -> None:
    assert report["end"] == "FULL"
    assert len(report["acknowledged"]) > 1
    assert report["after a crash"] == report["after a take-over"] == report["acknowledged"]
    assert report["goes on"]


async def test_a_quota_that_is_used_up_refuses_the_group_for_good(tmp_path: Path) -> None:
    """The system fails a write of the log, and gives no more room to who asks for it."""
    place = tmp_path / "place"
    place.mkdir()
    refuses_for_good(await report_of(place, "quota"))


async def test_a_commit_that_the_system_fails_is_unknown_until_a_take_over(tmp_path: Path) -> None:
    """A limit on the size of files fails the write of the log with EFBIG, an error that may as well come after it."""
    place = tmp_path / "place"
    place.mkdir()
    report = await report_of(place, "file-size")
    assert report["end"] == "UNKNOWN"
    acknowledged = report["acknowledged"]
    assert len(acknowledged) > 1
    assert report["after a take-over"] in (acknowledged, [*acknowledged, len(acknowledged)])
    assert report["after a crash"] in (acknowledged, [*acknowledged, len(acknowledged)])
    assert report["goes on"]
