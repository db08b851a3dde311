"""Which input a batch had, read from the logs of Spark's file source."""

from __future__ import annotations

import json

import pytest

from milepost.errors import InputMissing
from milepost.spark.inputs import InputFile, check_inputs, inputs_of
from tests.spark.logs import Logs


@pytest.fixture
def logs() -> Logs:
    return Logs()


def offsets(logs: Logs, batch: int, *sources: str) -> None:
    logs.put(f"offsets/{batch}", "\n".join(["v1", '{"conf":{}}', *sources]))


def source_log(logs: Logs, path: str, *entries: tuple[int, str]) -> None:
    lines = [json.dumps({"path": uri, "timestamp": 1000 + id_, "batchId": id_}) for id_, uri in entries]
    logs.put(path, "\n".join(["v1", *lines]))


def test_the_files_between_two_offsets_are_the_batchs(logs: Logs) -> None:
    offsets(logs, 3, '{"logOffset":5}')
    offsets(logs, 4, '{"logOffset":7}')
    for id_ in range(9):
        source_log(logs, f"sources/0/{id_}", (id_, f"file:///in/{id_}"))
    assert list(inputs_of(logs, 4)) == [InputFile("file:///in/6", 1006), InputFile("file:///in/7", 1007)]


def test_the_first_batch_begins_at_the_beginning(logs: Logs) -> None:
    offsets(logs, 0, '{"logOffset":0}')
    source_log(logs, "sources/0/0", (0, "file:///in/a"), (0, "file:///in/b"))
    assert [file.uri for file in inputs_of(logs, 0)] == ["file:///in/a", "file:///in/b"]


def test_compacted_logs_name_older_files_as_well(logs: Logs) -> None:
    offsets(logs, 8, '{"logOffset":8}')
    offsets(logs, 9, '{"logOffset":9}')
    source_log(logs, "sources/0/9.compact", *((id_, f"file:///in/{id_}") for id_ in range(10)))
    source_log(logs, "sources/0/9", (9, "file:///in/9"))
    assert [file.uri for file in inputs_of(logs, 9)] == ["file:///in/9"]


def test_each_source_has_offsets_of_its_own_and_other_kinds_are_passed_over(logs: Logs) -> None:
    offsets(logs, 0, '{"logOffset":0}', "-", '{"flights":{"0":12}}', "5")
    offsets(logs, 1, '{"logOffset":0}', '{"logOffset":0}', '{"flights":{"0":19}}', "9")
    source_log(logs, "sources/0/0", (0, "file:///first"))
    source_log(logs, "sources/1/0", (0, "file:///second"))
    logs.put("sources/2/0", 'v1\n{"flights":{"0":0}}')
    assert [file.uri for file in inputs_of(logs, 1)] == ["file:///second"]


def test_sources_that_the_log_names_are_found_by_their_names(logs: Logs) -> None:
    """Version 2 of the log, as Spark writes it when it is asked to."""
    logs.put("offsets/0", 'v2\n{"conf":{},"sourceMetadataInfo":{}}\nflights:{"logOffset":0}\n1:-')
    logs.put("offsets/1", 'v2\n{"conf":{},"sourceMetadataInfo":{}}\nflights:{"logOffset":1}\n1:{"logOffset":0}')
    for id_ in range(2):
        source_log(logs, f"sources/flights/{id_}", (id_, f"file:///flights/{id_}"))
    source_log(logs, "sources/1/0", (0, "file:///second"))
    assert [file.uri for file in inputs_of(logs, 1)] == ["file:///flights/1", "file:///second"]


def test_a_file_that_is_gone_is_refused_and_named() -> None:
    files = [InputFile(f"file:///in/{n}", 5) for n in range(8)]
    with pytest.raises(InputMissing, match=r"batch 4 .*file:///in/4 and 3 more.* restore flights --batch 3"):
        check_inputs(files, lambda _: None, 4, "flights")
    with pytest.raises(InputMissing, match="If they are lost, begin the job under another name"):
        check_inputs(files, lambda _: None, 0, "flights")


def test_a_file_that_was_written_anew_is_reported() -> None:
    now = {"file:///a": 5, "file:///b": 6}
    assert check_inputs([InputFile("file:///a", 5), InputFile("file:///b", 5)], now.get, 4, "flights") == ["file:///b"]
