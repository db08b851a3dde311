"""What listeners have written becomes rows of the right directory; other lines, and other queries, become nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import milepost
from milepost.errors import MilepostError
from milepost.rows import BatchRows
from milepost.store import StateHandleStore
from milepost.supervise.rows import CommandRows, Line, QueryDirectories, RowsFile, reported
from milepost.wire import MAX_ROWS

A, B, ELSEWHERE = (str(uuid.uuid5(uuid.NAMESPACE_URL, name)) for name in "abc")


@pytest.fixture
def store(blocking: milepost.Client, name: str) -> Iterator[StateHandleStore]:
    """The store of a job under an epoch, with a query in each of two directories and a batch of each."""
    with blocking.session() as session:
        store = session.store(name)
        store.campaign()
        begin(store, "checkpoint/queries/a", A)
        begin(store, "checkpoint/queries/b", B)
        yield store


def begin(store: StateHandleStore, directory: str, query: str) -> None:
    """What Spark stores of a query up to the commit of its first batch."""
    store.files.write(f"{directory}/metadata", f'{{"id":"{query}"}}'.encode())
    store.files.write(f"{directory}/commits/0", b"v1")


def rows_in(store: StateHandleStore, client: milepost.Client) -> dict[tuple[str | None, int | None], int | None]:
    entries = client.job_history(store.name)
    return {(each.directory, each.batch): each.input_rows for each in entries if each.kind == "batch-committed"}


def append(path: Path, text: str) -> None:
    with path.open("a") as opened:
        opened.write(text)


def test_each_line_is_taken_once_and_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    file = RowsFile(path)
    assert file.take() == []
    append(path, f"{A}\t0\t100\n{B}\t7\t0\n")
    assert file.take() == [Line(A, 0, 100), Line(B, 7, 0)]
    assert not path.exists()
    append(path, f"{A}\t1\t5\n")
    assert file.take() == [Line(A, 1, 5)]
    assert file.take() == []
    assert list(tmp_path.iterdir()) == []


def test_half_a_line_is_read_once_the_rest_is_there(tmp_path: Path) -> None:
    """A listener that opened the file before it was taken away writes on in it."""
    path = tmp_path / "rows"
    file = RowsFile(path)
    with path.open("w") as opened:
        opened.write(f"{A}\t0\t1\n{A}\t1\t10")
        opened.flush()
        assert file.take() == [Line(A, 0, 1)]
        opened.write(f"0\n{A}\t2\t3")
    append(path, f"{B}\t0\t1\n")
    assert file.take() == [Line(A, 1, 100), Line(B, 0, 1)]
    assert file.take() == [], "the last line never came to its end"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\0\0\0",
        "rubbish",
        f"{A}\t1",
        f"{A}\t1\t2\t3",
        f"{A}\t-1\t2",
        f"{A}\t1\t-2",
        f"{A}\t1\t1e3",
        f"{A}\t1\t{2**63}",
        f"{A.upper()}\t1\t2",
        "../../etc\t1\t2",
        f"{A}\t1\t2{B}\t1\t2",
        "x" * 100_000,
    ],
)
def test_other_lines_are_passed_over(tmp_path: Path, line: str) -> None:
    file = RowsFile(tmp_path / "rows")
    append(tmp_path / "rows", f"{A}\t0\t1\n{line}\n{A}\t2\t3\n")
    assert file.take() == [Line(A, 0, 1), Line(A, 2, 3)]


def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    file = RowsFile(tmp_path / "rows")
    assert file.take() == file.take() == []


def test_rows_go_to_the_directory_whose_metadata_has_the_id(store: StateHandleStore, tmp_path: Path) -> None:
    path, now = tmp_path / "rows", 0.0
    rows = CommandRows(RowsFile(path), QueryDirectories(store.files, lambda: now))
    append(path, f"{A}\t0\t5\n{B}\t0\t6\n{ELSEWHERE}\t0\t7\n{B}\t1\t8\n")
    assert rows.collect() == [
        BatchRows("checkpoint/queries/a", 0, 5),
        BatchRows("checkpoint/queries/b", 0, 6),
        BatchRows("checkpoint/queries/b", 1, 8),
    ]
    begin(store, "checkpoint/queries/late", ELSEWHERE)
    assert rows.collect() == [], "it was looked for a moment ago"
    now = 60.0
    assert rows.collect() == [BatchRows("checkpoint/queries/late", 0, 7)]


def test_a_query_that_begins_anew_in_its_directory_is_found_at_once(store: StateHandleStore, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    rows = CommandRows(RowsFile(path), QueryDirectories(store.files, lambda: 0.0))
    append(path, f"{A}\t0\t5\n")
    assert rows.collect() == [BatchRows("checkpoint/queries/a", 0, 5)]
    store.files.delete("checkpoint/queries/a", recursive=True)
    begin(store, "checkpoint/queries/a", ELSEWHERE)
    append(path, f"{ELSEWHERE}\t0\t6\n")
    assert rows.collect() == [BatchRows("checkpoint/queries/a", 0, 6)]


@pytest.mark.parametrize("metadata", [None, b"", b"\xff\x00", b'{"id":7}', b"[" * 1000])
def test_a_directory_without_an_id_is_no_directory_of_a_query(
    store: StateHandleStore, tmp_path: Path, metadata: bytes | None
) -> None:
    if metadata is None:
        store.files.delete("checkpoint/queries/a/metadata")
        store.files.make_directory("checkpoint/queries/a/metadata")
    else:
        store.files.write("checkpoint/queries/a/metadata", metadata)
    rows = CommandRows(RowsFile(tmp_path / "rows"), QueryDirectories(store.files, lambda: 0.0))
    append(tmp_path / "rows", f"{A}\t0\t5\n{B}\t0\t6\n")
    assert rows.collect() == [BatchRows("checkpoint/queries/b", 0, 6)]


def test_what_has_no_directory_is_bounded(store: StateHandleStore, tmp_path: Path) -> None:
    now = 0.0
    rows = CommandRows(RowsFile(tmp_path / "rows"), QueryDirectories(store.files, lambda: now))
    append(tmp_path / "rows", "".join(f"{ELSEWHERE}\t{batch}\t1\n" for batch in range(MAX_ROWS + 9)))
    append(tmp_path / "rows", "".join(f"{uuid.uuid4()}\t0\t1\n" for _ in range(63)))
    assert rows.collect() == []
    begin(store, "checkpoint", ELSEWHERE)
    now = 60.0
    assert [each.batch for each in rows.collect()] == list(range(9, MAX_ROWS + 9))


def test_the_history_has_them_at_the_end(store: StateHandleStore, blocking: milepost.Client, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    with reported(store, path):
        append(path, f"{A}\t0\t5\n{ELSEWHERE}\t0\t9\n{B}\t3\t9\n")
    assert rows_in(store, blocking) == {("checkpoint/queries/a", 0): 5, ("checkpoint/queries/b", 0): None}


def test_an_outage_while_directories_are_looked_for_loses_nothing(
    store: StateHandleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outage is a fake: of one request, in the middle of the look."""
    files = store.files
    rows = CommandRows(RowsFile(tmp_path / "rows"), QueryDirectories(files, lambda: 0.0))
    append(tmp_path / "rows", f"{A}\t0\t5\n{B}\t0\t6\n")
    read = files.read

    def away(path: str, *arguments: int, timeout: float | None = None) -> bytes:
        if path == "checkpoint/queries/b/metadata":
            raise milepost.ConnectionFailed("away")
        return read(path, *arguments, timeout=timeout)

    monkeypatch.setattr(files, "read", away)
    with pytest.raises(MilepostError):
        rows.collect()
    monkeypatch.undo()
    assert {(each.directory, each.rows) for each in rows.collect()} == {
        ("checkpoint/queries/a", 5),
        ("checkpoint/queries/b", 6),
    }
