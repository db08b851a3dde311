"""How a driver of the trials asks Spark for its input, and lets its tasks take some time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Reading:
    """A source in Spark's words; ``columns`` are the expressions that make ``k``, ``v`` and ``t`` of what it gives."""

    format: str
    options: dict[str, str]
    schema: str = ""
    columns: tuple[str, ...] = ("k", "v", "t")

    @classmethod
    def decode(cls, raw: dict[str, Any]) -> Reading:
        """What `dataclasses.asdict` made of one, and JSON of that."""
        return cls(raw["format"], raw["options"], raw["schema"], tuple(raw["columns"]))

    def frame(self, spark: SparkSession) -> DataFrame:
        """The input as a stream."""
        reader = spark.readStream.format(self.format).options(**self.options)
        return (reader.schema(self.schema) if self.schema else reader).load().selectExpr(*self.columns)


def slowly(column: str, milliseconds: int) -> str:
    """The column as it is, but for the time that each row takes, wherever its task runs."""
    # Nobody knows what it returns before it has been called, so it cannot be left out.
    slept = f"java_method('java.lang.Thread', 'sleep', {milliseconds}L)"
    return f"CASE WHEN {slept} = 'never' THEN NULL ELSE {column} END AS {column}" if milliseconds else column
