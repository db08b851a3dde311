"""The audit of both runs by `demo.spark.reader`, which is started ahead and asked when they are over."""

from __future__ import annotations

import json
from pathlib import Path

from demo.processes import Process, Processes
from demo.report.comparison import Comparison
from demo.spark.settings import DriverSettings, ReaderSettings

_DEADLINE_SECONDS = 120.0


class Audit:
    """``settings`` are those of the drivers under Milepost, ``plain_output`` is where the others put theirs."""

    def __init__(self, processes: Processes, directory: Path, settings: DriverSettings, plain_output: str) -> None:
        directory.mkdir()
        self._processes = processes
        self._begin = directory / "begin"
        self._result = directory / "result.json"
        self._settings = ReaderSettings(
            input=settings.input,
            services=settings.services,
            job=settings.job,
            plain_output=plain_output,
            java_options=settings.java_options,
            begin=str(self._begin),
            result=str(self._result),
        )
        self._reader: Process | None = None

    def prepare(self) -> None:
        """Start the reader; it waits."""
        self._reader = self._processes.start("reader", "demo.spark.reader", self._settings.to_json())

    def result(self) -> tuple[Comparison, Comparison]:
        """The comparison of the run under Milepost, and of the other. Raises `DemoFailed`."""
        if self._reader is None:
            self.prepare()
        assert self._reader is not None
        self._begin.touch()
        status = self._reader.wait(_DEADLINE_SECONDS)
        if status != 0:
            raise self._reader.failed(f"ended with {status}")
        with_milepost, plain = json.loads(self._result.read_text())
        return Comparison(**with_milepost), Comparison(**plain)
