"""What an error of Spark's says, without the stacks that it has in its text."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from milepost.spark.driver.calls import describe


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the disk is full", "the disk is full"),
        (
            "An error occurred while calling o1.save.\n: java.io.IOException: no\n\tat a.b(C.java:1)\nCaused by: d",
            "An error occurred while calling o1.save. : java.io.IOException: no",
        ),
        ("[UDF] failed in a worker:\nTraceback (most recent call last):\n  File", "[UDF] failed in a worker:"),
        ("no table\n\nJVM stacktrace:\norg.apache.spark.sql.AnalysisException", "no table"),
    ],
)
def test_an_error_in_one_line(text: str, said: str) -> None:
    assert describe(Py4JError(text)) == said


def test_an_error_of_a_jvm_that_is_gone_has_its_name() -> None:
    class Gone(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert describe(Gone()) == "Gone"
