"""What Spark has from release 4.2 on for streams of Python data sources, and stand-ins for releases before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadMaxFiles, SupportsTriggerAvailableNow

    LIMITS = True
else:
    try:
        from pyspark.sql.streaming.datasource import ReadMaxFiles, SupportsTriggerAvailableNow

        LIMITS = True
    except ModuleNotFoundError:
        LIMITS = False

        @dataclass
        class ReadMaxFiles:
            """No release before 4.2 passes a limit."""

            max_files: int

        class SupportsTriggerAvailableNow:
            """Releases before 4.2 read everything that is there in one batch of Spark's."""


__all__ = ["LIMITS", "ReadMaxFiles", "SupportsTriggerAvailableNow"]
