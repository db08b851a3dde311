"""The job of ``java/Sums.java``, and what it has written into its directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.spark.supervise.supervised import spark_submit

ROWS = 100


class Sums:
    """What the job has written into its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def command(
        self,
        java_options: str,
        jar: Path,
        last: int,
        pause: int,
        settings: Mapping[str, str] | None = None,
        factor: int = 1,
    ) -> list[str]:
        """Its command: it ends after batch ``last``, and each batch takes ``pause`` milliseconds more. A release with a
        ``factor`` other than 1 is wrong.
        """
        arguments = ["--class", "Sums", str(jar), str(self.directory), str(last), str(pause), str(factor)]
        return spark_submit(java_options, *arguments, settings=settings)

    def entered(self, batch: int) -> bool:
        """Whether it has begun this batch of its aggregation."""
        path = self.directory / "entered"
        return path.exists() and f"sums {batch}\n" in path.read_text()

    def written(self, name: str) -> list[int]:
        """The batches of a query that are written, in order."""
        return sorted(int(path.name.rpartition("-")[2]) for path in self.directory.glob(f"{name}-*[0-9]"))

    def check(self, last: int) -> None:
        """Each batch up to the last is there, and exact."""
        for name in ("sums", "distinct"):
            assert self.written(name)[: last + 1] == list(range(last + 1))
        assert self.wrong() == []

    def wrong(self) -> list[tuple[str, int]]:
        """The batches that are written and not exact."""
        found = []
        for batch in self.written("sums"):
            sums = [list(map(int, line.split())) for line in self._lines("sums", batch)]
            ends = ROWS * (batch + 1)
            if sums != [[key, ends // 10, sum(range(key, ends, 10))] for key in range(10)]:
                found.append(("sums", batch))
        for batch in self.written("distinct"):
            values = sorted(map(int, self._lines("distinct", batch)))
            if values != list(range(ROWS * batch, ROWS * (batch + 1))):
                found.append(("distinct", batch))
        return found

    def _lines(self, name: str, batch: int) -> list[str]:
        return (self.directory / f"{name}-{batch}").read_text().splitlines()
