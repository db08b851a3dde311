"""Sources and settings that are refused before a query runs."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from milepost.core.checkpoint_location import checkpoint_location
from milepost.errors import UnsafeQuery
from milepost.spark.guard import check_clean_source, check_retained, warn_of_strangers
from milepost.spark.output.file_systems import HadoopFiles
from milepost.types import FileCredential
from testbed.server import ServerProcess
from tests.spark.jobs import Place, finish
from tests.spark.tls import TOKEN, token_flags


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


OWN = ["http://10.0.0.1:7070"]
CREDENTIAL = FileCredential(7, "flights-7", "the-secret")
OFF = {"dfs.webhdfs.oauth2.enabled": "false", "dfs.webhdfs.rest-csrf.enabled": "false"}
"""As docs/files.md has them for a read that is no stream."""
OTHER = "webhdfs://namenode:9870/input"


@pytest.mark.parametrize(
    ("where", "warned"),
    [
        (OTHER, True),
        ("swebhdfs://namenode:9871/input", True),
        ("webhdfs://10.0.0.1:9870/input", True),
        ("webhdfs://10.0.0.1:7070/jobs/flights/output", False),
        ("hdfs://namenode:8020/input", False),
        ("/input", False),
        ("", False),
    ],
)
def test_who_is_a_stranger(where: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_strangers(checkpoint_location(OWN, "flights", 7, credential=CREDENTIAL), where, "the source")
    warn_of_strangers(checkpoint_location(OWN, "flights", 7), where, "a job without a token")
    assert [record.getMessage()[:20] for record in caplog.records] == ["the source uses " + where[:4]] * warned
    assert "the-secret" not in caplog.text


@pytest.mark.spark
def test_a_stream_from_elsewhere_sends_the_token_there_and_is_warned_of(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other address is the service's own under another name: it lets in who brings the token, and nobody else."""
    caplog.set_level(logging.WARNING)
    (tmp_path / "service").mkdir()
    with ServerProcess(tmp_path / "service", *token_flags(tmp_path)) as server:
        guarded = replace(place, url=server.start().url)
        with guarded.lead(token=TOKEN) as job:
            here = job.checkpointLocation.replace("/checkpoint", "/input")
            HadoopFiles(place.spark).write_new(f"{here}/a.txt", b"a\nb\n", overwrite=True)
            there = here.replace("127.0.0.1", "localhost")
            with pytest.raises(Py4JJavaError, match="Unauthorized"):
                place.spark.read.options(**OFF).text(there)
            assert "localhost" not in caplog.text
            writer = place.spark.readStream.text(there).writeStream.trigger(availableNow=True)
            function = job.exactlyOnce(lambda frame, _: frame.count())
            finish(job, writer.option("checkpointLocation", job.checkpointLocation).foreachBatch(function).start())
            assert job.manifest == 2
    assert f"uses webhdfs://localhost:{server.port} under the settings of this session" in caplog.text
