"""What docs/state.md shows of managed state in PySpark works."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.server import ServerProcess
from tests.docs.blocks import ROOT, blocks_of
from tests.spark.stateful.texts import write_texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BLOCKS = [
    block for block in blocks_of(ROOT / "docs" / "state.md") if "test_page.py" in block.marks.get("tested by", "")
]
SHOWN = [block for block in BLOCKS if block.language == "python"]
(BY_REST,) = [block for block in BLOCKS if block.language == "sh"]


def test_the_lines_count_words_and_read_their_state(
    service: ServerProcess, spark: SparkSession, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (counts,) = write_texts(tmp_path / "texts", 1, 200)
    given: dict[str, object] = {"spark": spark}
    assert len(SHOWN) == 2
    for block in SHOWN:
        text = block.text
        for old, new in (
            ("http://127.0.0.1:7070", service.url),
            ('"words"', repr(name)),
            ("/data/", f"{tmp_path}/"),
            (".start()", ".trigger(availableNow=True).start()"),
        ):
            text = text.replace(old, new)
        exec(compile(text, block.place, "exec"), given)
    told = capsys.readouterr().out
    assert f"value=({counts['license']},)" in told
    line = BY_REST.text.replace("http://127.0.0.1:7070", service.url).replace("/words/", f"/{name}/")
    answer = json.loads(subprocess.run(line, shell=True, check=True, capture_output=True, timeout=120).stdout)
    assert answer["values"] == [{"variable": "count", "value": {"count": counts["license"]}}]
    assert f"\n{len(counts)}\n" in told
    assert spark.read.parquet(f"{tmp_path}/counts/batch=*/*").count() == len(counts)
