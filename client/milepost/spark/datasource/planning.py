"""What the streams of the data source share: the process that plans beside the driver has the options and a client."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader

from milepost.client import Client
from milepost.spark.datasource.options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PAUSE_SECONDS: Final = 1.0
"""How long an answer of the service counts. Spark asks a stream without new rows every 10 ms for its latest offset."""


class PlannedStream(DataSourceStreamReader):
    """A stream that is planned with the service's help. A copy for executors has no options, no clock and no client."""

    def __init__(self, options: Options, schema: StructType, clock: Callable[[], float] = time.monotonic) -> None:
        self._options: Options | None = options
        self._schema = schema
        self._clock: Callable[[], float] | None = clock
        self._client: Client | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": None, "_schema": self._schema, "_clock": None, "_client": None}

    def stop(self) -> None:
        """Close the connections to the service."""
        if self._client is not None:
            self._client.close()

    @property
    def _planning(self) -> Options:
        assert self._options is not None, "executors plan nothing"
        return self._options

    def _service(self) -> Client:
        if self._client is None:
            self._client = self._planning.client()
        return self._client

    def _now(self) -> float:
        return (self._clock or time.monotonic)()
