"""Sources and settings that are refused before a query runs."""

from __future__ import annotations

import pytest

from milepost.errors import UnsafeQuery
from milepost.spark.guard import check_clean_source, check_retained


@pytest.mark.parametrize("batches", ["0", "1"])
def test_too_few_retained_batches_are_refused(batches: str) -> None:
    with pytest.raises(UnsafeQuery, match=f"minBatchesToRetain is {batches}"):
        check_retained(batches)


@pytest.mark.parametrize("batches", ["2", "100", None])
def test_enough_of_them_are_fine(batches: str | None) -> None:
    check_retained(batches)


@pytest.mark.parametrize("options", [{"cleanSource": "delete"}, {"CLEANSOURCE": "Archive", "path": "/in"}])
def test_sources_that_clean_up_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(UnsafeQuery, match="cleanSource"):
        check_clean_source(options, "FileSource[/in]")


@pytest.mark.parametrize("options", [{}, {"cleanSource": "off"}, {"cleansource": "OFF"}])
def test_sources_that_keep_their_input_are_fine(options: dict[str, str]) -> None:
    check_clean_source(options, "FileSource[/in]")
