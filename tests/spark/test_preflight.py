"""What is refused or reported before a query runs."""

from __future__ import annotations

import pytest

from milepost.errors import UnsafeQuery
from milepost.spark.preflight import ConfDifference, check_clean_source, check_retained, conf_differences


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


def test_settings_that_the_log_holds_otherwise_are_found() -> None:
    offsets = b'v1\n{"batchWatermarkMs":0,"conf":{"b":"same","a":"logged","c":"x"}}\n{"logOffset":0}'
    session = {"a": "now", "b": "same"}
    assert conf_differences(offsets, session.get) == [ConfDifference("a", "logged", "now")]


@pytest.mark.parametrize("offsets", [b"", b"v1", b"v1\nnonsense", b"v1\n[]", b"v1\n{}"])
def test_logs_without_settings_differ_in_none(offsets: bytes) -> None:
    assert conf_differences(offsets, lambda _: "anything") == []
