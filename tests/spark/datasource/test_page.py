"""What docs/datasource.md shows works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.blocks import ROOT, blocks_of
from tests.spark.jobs import Place, wait_until
from tests.spark.output.test_files import EXPECTED

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


def test_the_blocks_of_the_page(published: Place, capfd: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = {"spark": published.spark}
    for block in blocks_of(ROOT / "docs" / "datasource.md"):
        text = block.text.replace("http://127.0.0.1:7070", published.url).replace('"flights"', repr(published.name))
        exec(text.replace("/data/", f"{published.directory}/").replace("19990", "3"), found)
    assert "batch-committed" in capfd.readouterr().out
    query: StreamingQuery = found["query"]
    try:
        wait_until(lambda: query.lastProgress is not None and query.lastProgress["numInputRows"] > 0)
    finally:
        query.stop()
    late = published.spark.read.parquet(f"{published.directory}/late")
    assert late.count() == sum(map(len, EXPECTED(4)))
