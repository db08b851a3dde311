"""Files of properties, as Java reads them."""

from __future__ import annotations

import pytest

from milepost.supervise.properties_file import parse


@pytest.mark.parametrize(
    "line",
    [
        "spark.a=b c",
        "  spark.a : b c  ",
        "spark.a\t b c",
        "spark.a \\\n   b c",
        "spark.\\\n  a=b c",
        "spark.a=b \\\r\n\t c\r\n",
        "spark.\\u0061=b\\u0020c",
        "spark\\.a=b c",
        "# a comment\\\nspark.a=b c",
        "! another\rspark.a=b c\r",
        "\n \f\nspark.a=x\nspark.a=b c",
    ],
)
def test_one_property(line: str) -> None:
    assert parse(line) == {"spark.a": "b c"}


def test_what_java_stored() -> None:
    assert parse("a\\ b\\=c=webhdfs\\://h\\:1/x\\\\y\\t\\u00e9") == {"a b=c": "webhdfs://h:1/x\\y\té"}


def test_odd_ones() -> None:
    assert parse("") == parse("# only\n\n!comments") == {}
    assert parse("lonely\nempty=\n=nameless\nlast=x\\") == {"lonely": "", "empty": "", "": "nameless", "last": "x"}
    assert parse("a=1\\\\\nb=2") == {"a": "1\\", "b": "2"}
    assert parse("a=\\u12 b\u2028c=d") == {"a": "u12 b\u2028c=d"}
