"""Manifests give back what was written, find paths as a sorted list does, and refuse what is no manifest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.trees import Entry, TreePath

ENTRIES = st.builds(
    Entry,
    created_revision=st.integers(1, 2**53),
    deleted_revision=st.integers(0, 2**53),
    modified=st.just("2026-01-01T00:00:00.000Z"),
    epoch=st.none() | st.integers(1, 2**53),
    size=st.integers(0, 2**53),
    sha256=st.sampled_from(["", "a" * 64]),
    blob=st.sampled_from(["", "x", "y", "z"]),
    start=st.none() | st.integers(0, 2**31),
    shared=st.booleans(),
) | st.builds(Entry, created_revision=st.integers(1, 9), modified=st.just("m"), directory=st.just(True))
PATHS = st.text('ab/."\\\u00e9\uffff\U0001f600', min_size=1, max_size=6)
RECORDS = st.dictionaries(PATHS, st.lists(ENTRIES, max_size=3).map(tuple), max_size=12)


@given(RECORDS, PATHS)
def test_what_was_written_is_found_again(records: dict[str, tuple[Entry, ...]], other: str) -> None:
    written = [TreePath(path, records[path]) for path in sorted(records)]
    rows = ManifestRows(ManifestRows.of(written).content)
    assert list(rows) == written
    assert len(rows) == rows.manifest("blob").rows == len(records)
    for path in (*records, other, "", "\U0010ffff"):
        found = rows.get(path)
        assert (None if found is None else found.entries) == records.get(path)
        assert rows.after(path) == min((each for each in records if each > path), default=None)
    named = {entry.blob for entries in records.values() for entry in entries if entry.blob}
    assert all(rows.may_name(blob) for blob in named)


def test_a_blob_that_no_row_names_is_not_taken_for_one() -> None:
    rows = ManifestRows.of([TreePath(str(number), (Entry(1, "m", blob=str(number)),)) for number in range(10)])
    assert not any(rows.may_name(str(number)) for number in range(10, 1000))


WHOLE = ManifestRows.of([TreePath("a", (Entry(1, "m"),)), TreePath("b")]).content
FIRST, A, B = WHOLE.splitlines(keepends=True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        FIRST.replace(b"1", b"2") + A,
        A + B,
        WHOLE[:-1],
        FIRST + B + A,
        FIRST + A + A,
        FIRST + A.replace(b"[[", b"[{") + B,
        FIRST + b"\n",
        FIRST + b'{"path":"a"}\n',
    ],
)
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="manifest"):
        ManifestRows(content)


def test_the_bytes_of_a_small_file_are_not_lost_silently() -> None:
    with pytest.raises(AssertionError):
        ManifestRows.of([TreePath("a", (Entry(1, "m", data=b"bytes"),))])
