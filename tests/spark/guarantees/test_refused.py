"""What cannot be had, and the words in which Spark says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tests.spark.guarantees.program import in_real_time
from tests.spark.jobs import Place, finish

pytestmark = [pytest.mark.spark, pytest.mark.long]

_ALLOWLIST = "spark.sql.streaming.realTimeMode.allowlistCheck"
_STATE = "org.apache.spark.sql.execution.streaming.state"


def test_a_stream_cannot_be_started_by_sql_outside_of_a_pipeline(place: Place) -> None:
    place.spark.readStream.format("rate").load().createOrReplaceTempView("rate")
    with pytest.raises(PySparkException, match=r"UNSUPPORTED_FEATURE\.CREATE_PIPELINE_DATASET_QUERY_EXECUTION"):
        place.spark.sql("CREATE STREAMING TABLE numbers AS SELECT * FROM STREAM rate")


@pytest.mark.parametrize(
    ("setting", "value", "refusal"),
    [
        ("checkpointFormatVersion", "1", "checkpointFormatVersion must be 2 or above"),
        ("providerClass", f"{_STATE}.HDFSBackedStateStoreProvider", "providerClass must be"),
    ],
    ids=["format", "provider"],
)
def test_real_time_mode_keeps_state_in_one_way_alone(place: Place, setting: str, value: str, refusal: str) -> None:
    frame = place.spark.readStream.format("rate").load().groupBy("value").count()
    name = f"spark.sql.streaming.stateStore.{setting}"
    with place.lead() as job:
        writer = frame.writeStream.option("checkpointLocation", job.checkpointLocation).format("console")
        place.spark.conf.set(name, value)
        try:
            with pytest.raises(PySparkException, match=rf"SQL_CONFIGURATION_NOT_SUPPORTED.*{refusal}"):
                in_real_time(writer).start()
        finally:
            place.spark.conf.unset(name)


@pytest.mark.parametrize("checked", ["true", "false"])
@pytest.mark.parametrize("kind", ["files", "once"])
def test_real_time_mode_does_not_run_functions_for_batches(place: Place, kind: str, checked: str) -> None:
    """Not even where somebody turns off the list of what it allows."""
    refusal = "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST" if checked == "true" else "does not support async progress tracking"
    frame = place.spark.readStream.format("rate").load().selectExpr("value AS v")
    with place.lead() as job:
        made = job.files(place.output) if kind == "files" else job.exactlyOnce(lambda _frame, _context: None)
        writer = frame.writeStream.foreachBatch(made)
        writer = in_real_time(writer.option("checkpointLocation", job.checkpointLocation))
        place.spark.conf.set(_ALLOWLIST, checked)
        try:
            with pytest.raises(PySparkException, match=refusal):
                finish(job, writer.start())
        finally:
            place.spark.conf.unset(_ALLOWLIST)


@pytest.mark.parametrize(
    ("mode", "refusal"),
    [
        ("update", r"STREAMING_OUTPUT_MODE\.UNSUPPORTED_DATASOURCE"),
        ("append", r"STREAMING_REAL_TIME_MODE\.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"),
    ],
)
def test_real_time_mode_does_not_write_parquet(place: Place, tmp_path: Path, mode: str, refusal: str) -> None:
    frame = place.spark.readStream.format("rate").load().selectExpr("value AS v")
    with place.lead() as job:
        writer = frame.writeStream.option("checkpointLocation", job.checkpointLocation)
        writer = writer.format("parquet").option("path", str(tmp_path / "parquet"))
        with pytest.raises(PySparkException, match=refusal):
            finish(job, in_real_time(writer).outputMode(mode).start())
