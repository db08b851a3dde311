"""Bytes of large files that are damaged on disk are not delivered whole, and the log says so in one line each time."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

from tests.wire.support.api import Api, until
from tests.wire.support.in_process import in_process
from tests.wire.webhdfs.hadoop import Tree

LARGE = b"x" * 3_000_000


@pytest.mark.parametrize("of_a_job", [False, True], ids=["state", "file"])
def test_each_answer_that_is_cut_is_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, of_a_job: bool
) -> None:
    with in_process(tmp_path) as here:
        tree, api = Tree(here.http, "job"), Api.on(here.http, "s")
        if of_a_job:
            assert tree.create("large", LARGE).status_code == 201
        else:
            api.added("large", LARGE)
        (stored,) = (path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.stat().st_size > 1000)
        stored.chmod(0o600)
        stored.write_bytes(LARGE[:-1] + b"!")
        with pytest.raises(httpx.RemoteProtocolError):
            tree.read("large") if of_a_job else api.state("large")

        def told() -> list[logging.LogRecord]:
            return [record for record in caplog.records if record.levelno >= logging.WARNING]

        until(lambda: len(told()) > 0, "the log says so")
        (record,) = told()
        assert record.name == "milepost.http"
        assert "cut the answer to GET" in record.getMessage()
        assert "do not match their digest" in record.getMessage()
        assert record.exc_info is None
