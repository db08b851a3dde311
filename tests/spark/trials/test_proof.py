"""A lost row, a doubled one, a batch with two inputs and a late write would each be told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost_server.model.records import Handle, Store
from milepost_server.model.trees import Entry, TreePath
from tests.spark.clusters.written import Journal
from tests.spark.trials.proof import Offsets, Violation, check_journal, check_rows, expected, logged, written_by_jar
from tests.spark.trials.queries import Row, lines
from tests.spark.trials.sources import Files
from tests.spark.trials.stateful import QUERIES

JOB = "flights"
_NOW = "2026-01-01T00:00:00.000Z"


class Told(Journal):
    """Records that a service might have written: a journal that is wrong cannot be had from a real one."""

    def __init__(self, *records: tuple[str, object]) -> None:
        self._told = records

    def records(self) -> Iterator[tuple[str, object]]:
        yield from self._told


def granted(epoch: int, at: int) -> tuple[str, object]:
    return f"stores/{JOB}", Store(JOB, epoch=epoch, granted=at)


def file(path: str, created_revision: int, epoch: int, data: bytes = b"x") -> tuple[str, object]:
    return f"stores/{JOB}/files/{path}", TreePath(path, (Entry(created_revision, _NOW, epoch, data=data),))


def handle(version: str, changed: int, epoch: int) -> tuple[str, object]:
    return f"stores/{JOB}/handles/job", Handle("job", version, "", 0, "", _NOW, _NOW, 1, changed, epoch=epoch)


def offsets(*ends: int) -> bytes:
    return "\n".join(["v1", "{}", *(json.dumps({"logOffset": end}) for end in ends)]).encode()


def test_each_batch_must_have_its_rows_each_time_that_it_was_written(tmp_path: Path) -> None:
    wanted = expected(QUERIES["stateless"], Files(tmp_path), {0: [{"logOffset": 0}], 1: [{"logOffset": 2}]}, 1)
    assert wanted == {
        0: sorted((line.k, 2 * line.v) for line in lines(0) if line.v % 3),
        1: sorted((line.k, 2 * line.v) for line in [*lines(1), *lines(2)] if line.v % 3),
    }
    written: dict[int, list[list[Row]]] = {batch: [rows] for batch, rows in wanted.items()}
    check_rows(written, wanted)
    for wrong in ({1: written[1]}, {**written, 0: [wanted[0][1:]]}, {**written, 1: [wanted[1], [*wanted[1], (1, 1)]]}):
        with pytest.raises(Violation, match=r"batch [01] "):
            check_rows(wrong, wanted)


def test_a_published_batch_without_input_is_told(tmp_path: Path) -> None:
    with pytest.raises(Violation, match="batch 1 of 1 was published, and no input"):
        expected(QUERIES["stateless"], Files(tmp_path), {0: [{"logOffset": 0}]}, 1)


def test_a_source_that_a_batch_does_not_read_stays_where_it_was(tmp_path: Path) -> None:
    read: Offsets = {0: [{"logOffset": 0}, None], 1: [None, {"logOffset": 1}]}
    both = expected(QUERIES["join"], Files(tmp_path), read, 1)
    assert both[0] == []
    assert sorted(both[1]) == sorted(
        (even.k, even.v * 1000 + odd.v)
        for even in lines(0)
        for odd in [*lines(0), *lines(1)]
        if even.k == odd.k and not even.v % 2 and odd.v % 2
    )


def test_offsets_are_read_from_the_journal_and_never_two_for_a_batch() -> None:
    path = "checkpoint/offsets"
    journal = Told(file(f"{path}/0", 2, 1, offsets(0, 1)), file(f"{path}/1", 3, 1, b"v1\n{}\n-"), file(path, 1, 1))
    assert logged(journal, JOB, "checkpoint") == {0: [{"logOffset": 0}, {"logOffset": 1}], 1: [None]}
    twice = Told(file(f"{path}/0", 2, 1, offsets(0)), file(f"{path}/0", 5, 2, offsets(1)))
    with pytest.raises(Violation, match="batch 0 was given two inputs"):
        logged(twice, JOB, "checkpoint")


def test_a_late_write_is_told() -> None:
    good = (granted(1, 1), file("a", 2, 1), handle("1-a", 3, 1), granted(2, 4), file("a", 5, 2), handle("2-a", 6, 2))
    assert check_journal(Told(*good), JOB) == 2
    assert check_journal(Told(*good, handle("1-a", 7, 1)), JOB) == 2  # written anew for a lock, of the same version
    for late in (file("b", 7, 1), handle("3-a", 7, 1)):
        with pytest.raises(Violation, match="writes of fenced drivers were accepted"):
            check_journal(Told(*good, late), JOB)
    with pytest.raises(Violation, match="grants of some epochs are not on record"):
        check_journal(Told(*good, granted(4, 9)), JOB)


def test_what_the_jar_has_written_is_read_as_often_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "1-a").write_text("2 5\n1 7")
    (tmp_path / "3" / "2-b").write_text("")
    assert sorted(written_by_jar(tmp_path)[3]) == [[], [(1, 7), (2, 5)]]
