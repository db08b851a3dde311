"""The columns of the tables, and the options."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructType

from milepost.errors import InvalidName
from milepost.job_types import HistoryEntry
from milepost.spark.datasource import MilepostDataSource
from milepost.spark.datasource.options import options_from
from milepost.spark.datasource.tables import SCHEMAS, check_columns
from milepost.types import JobFile, Process

SECRET = "a-token-that-nobody-may-see"
GIVEN = {"url": "http://127.0.0.1:1", "token": SECRET, "store": "flights"}


def names(kind: type[Any]) -> set[str]:
    return {field.name for field in fields(kind)}


def test_the_tables_have_what_the_client_has() -> None:
    columns = {table: {column.split()[0] for column in schema.split(", ")} for table, schema in SCHEMAS.items()}
    assert columns["history"] == (names(HistoryEntry) - {"process"}) | names(Process)
    assert columns["files"] == names(JobFile) - {"age"}


@pytest.mark.parametrize("stream", [False, True])
def test_what_goes_to_executors_has_neither_token_nor_address(stream: bool) -> None:
    for table in ("published", "history"):
        source = MilepostDataSource({**GIVEN, "table": table})
        schema = StructType().add("batch", LongType())
        reader = source.streamReader(schema) if stream else source.reader(schema)
        for sent in (pickle.dumps(reader), pickle.dumps(source)):
            assert SECRET.encode() not in sent
            assert b"127.0.0.1" not in sent


def test_options_have_any_case_and_show_no_token() -> None:
    options = options_from({**GIVEN, "MAXBATCHESPERTRIGGER": "3", "verify": "False"}, stream=True)
    assert (options.most_batches, options.verify, options.fail_on_data_loss) == (3, False, True)
    assert SECRET not in repr(options)
    assert options_from({"store": "flights", "batches": "1, 3-4,9-"}).batches == (
        range(1, 2),
        range(3, 5),
        range(9, 2**63),
    )
    assert options_from({**GIVEN, "url": "http://a:1, http://b:2"}).url == ("http://a:1", "http://b:2")


@pytest.mark.parametrize(
    ("given", "stream", "said"),
    [
        ({"acceptRestore": "-1"}, True, "acceptRestore must be a whole number from 1 on, not '-1'"),
        ({"acceptRestore": "1"}, False, "a batch query of the table 'published' has no option acceptrestore"),
        ({"startingBatch": "first"}, True, "startingBatch must be earliest, latest or a number"),
        ({"failOnDataLoss": "no"}, True, "failOnDataLoss must be true or false"),
        ({"timeout": "0"}, None, "timeout must be a number of seconds above 0"),
        ({"table": "files"}, True, "does not have a stream of the table 'files': it has published, history"),
        ({"store": ""}, None, "name it by the option store"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], stream: bool | None, said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        options_from({**GIVEN, **given}, stream=stream)
    assert SECRET not in str(error.value)


def test_a_wrong_name_or_column_is_named() -> None:
    with pytest.raises(InvalidName):
        options_from({"store": "../flights"})
    with pytest.raises(ValueError, match="has no column seize: it has path, directory"):
        check_columns("files", StructType().add("seize", LongType()))
