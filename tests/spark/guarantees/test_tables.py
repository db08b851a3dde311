"""Delta Lake and Iceberg: no release of either is for this Spark yet, and those for others do not run on it.

This fails once one does. Then the cells of docs/spark.md can be tried as those of the other sinks are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.maven import jars
from tests.spark.under_test.process import DEADLINE_SECONDS, ROOT

pytestmark = [pytest.mark.spark, pytest.mark.long]

WORDS = {
    "delta by txnAppId": "NoSuchMethodError: 'void org.apache.spark.sql.execution.LogicalRDD.<init>",
    "delta as a stream": "void org.apache.spark.sql.execution.LogicalRDD.<init>",
    "iceberg, a table": "IncompatibleClassChangeError: class org.apache.iceberg.spark.source.SparkView",
    "iceberg as a stream": "IncompatibleClassChangeError: Found interface",
}


def test_the_newest_releases_do_not_run_on_this_spark(java_options: str, tmp_path: Path) -> None:
    names = ",".join(str(jar) for jar in sorted(jars("spark-tables").glob("*.jar")))
    command = [sys.executable, "-m", "tests.spark.guarantees.tables", str(tmp_path), java_options, names]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr[-6000:]
    ends = json.loads(ran.stdout.splitlines()[-1])
    assert set(ends) == set(WORDS)
    for attempt, words in WORDS.items():
        assert words in ends[attempt], (attempt, ends[attempt])
