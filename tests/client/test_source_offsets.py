"""Offsets of Kafka sources that are written anew into Spark's offset log, and nothing else of it."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidRequest, WrongCheckpoint
from milepost.source_offsets import described, moved, parsed

V1 = b'v1\n{"conf":{"k":"x"}}\n{"logOffset":4}\n{"a":{"0":12,"1":3},"b":{"0":5}}\n-'
V2 = b'v2\n{"conf":{}}\nfirst:{"a":{"0":12}}\nsecond:{"a":{"0":12},"c":{"0":1}}\nfiles:{"logOffset":4}'


def test_a_topic_goes_on_elsewhere_and_the_rest_stays() -> None:
    assert moved(V1, {"a": {"0": 0, "1": 0, "2": 0}}) == (
        b'v1\n{"conf":{"k":"x"}}\n{"logOffset":4}\n{"a":{"0":0,"1":0,"2":0},"b":{"0":5}}\n-'
    )


def test_each_source_that_reads_the_topic_goes_on_there() -> None:
    assert moved(V2, {"a": {"0": 1}}) == (
        b'v2\n{"conf":{}}\nfirst:{"a":{"0":1}}\nsecond:{"a":{"0":1},"c":{"0":1}}\nfiles:{"logOffset":4}'
    )


@pytest.mark.parametrize(("log", "reads"), [(V1, "a, b"), (V2, "a, c"), (b'v1\n{}\n{"logOffset":4}', "none")])
def test_a_topic_that_no_source_reads_is_refused(log: bytes, reads: str) -> None:
    with pytest.raises(InvalidRequest, match=f"no topic d from Kafka; it reads {reads}"):
        moved(log, {"d": {"0": 0}})


def test_a_file_that_is_no_log_is_refused() -> None:
    with pytest.raises(WrongCheckpoint, match="names no source: b'v1'"):
        moved(b"v1", {"a": {"0": 0}})


@pytest.mark.parametrize(
    "text",
    ["", "{", "7", "{}", '["a"]', '{"a": {}}', '{"a": 0}', '{"a": {"x": 0}}', '{"a": {"0": -1}}', '{"a": {"0": true}}'],
)
def test_what_has_not_the_form_of_offsets_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"form|Expecting"):
        parsed(text)


def test_offsets_are_told() -> None:
    assert described(parsed('{"b": {"1": 2, "0": 7}, "a": {"0": 0}}')) == "a 0:0, b 0:7 1:2"
