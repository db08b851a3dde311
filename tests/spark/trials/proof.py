"""What a job has read, written and published must fit together, as the journal of the service and its output show."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

from tests.spark.clusters.written import Journal
from tests.spark.trials.queries import Kind, Line, Row
from tests.spark.trials.sources import Offset, Source

Offsets = dict[int, list[Offset]]
"""To where each batch reads of each source."""


class Violation(AssertionError):
    """A row was lost or doubled, or a write of a fenced driver was accepted."""


def logged(journal: Journal, job: str, query: str) -> Offsets:
    """The offsets that Spark has logged for each batch. Raises `Violation` if it did so in two ways."""
    name = re.compile(rf"{re.escape(query)}/offsets/(\d+)")
    found: dict[int, bytes] = {}
    for path, entry in journal.entries(job):
        match = name.fullmatch(path)
        if match is None or entry.directory:
            continue
        if entry.data is None:
            assert entry.blob, f"{path} has no bytes"
            continue  # it has been compacted, and was on record with its bytes before
        if found.setdefault(int(match[1]), entry.data) != entry.data:
            raise Violation(f"batch {match[1]} was given two inputs: {found[int(match[1])]!r} and {entry.data!r}")
    return {batch: [_offset(line) for line in data.decode().splitlines()[2:]] for batch, data in found.items()}


def _offset(line: str) -> Offset:
    return None if line == "-" else json.loads(line)


def expected(kind: Kind, source: Source, offsets: Offsets, last: int) -> dict[int, list[Row]]:
    """The rows of each batch up to the last, computed without Spark."""
    batches: list[list[Line]] = []
    before: list[Offset] = []
    for number in range(last + 1):
        if number not in offsets:
            raise Violation(f"batch {number} of {last} was published, and no input was ever logged for it")
        ends = offsets[number]
        before = before or [None] * len(ends)
        read = zip(kind.sources if len(kind.sources) == len(ends) else (_any,) * len(ends), before, ends, strict=True)
        batches.append([line for wanted, begin, end in read for line in source.between(begin, end) if wanted(line)])
        before = [begin if end is None else end for begin, end in zip(before, ends, strict=True)]
    return dict(enumerate(kind.rows(batches)[: last + 1]))


def _any(_line: Line) -> bool:
    return True


def written_by_jar(output: Path) -> dict[int, list[list[Row]]]:
    """The rows of each batch, as often as a driver in Java has written them."""
    found: dict[int, list[list[Row]]] = defaultdict(list)
    for path in output.glob("[0-9]*/*"):
        rows = [line.split() for line in path.read_text().splitlines()]
        found[int(path.parent.name)].append(sorted((int(key), int(value)) for key, value in rows))
    return found


def check_rows(rows: dict[int, list[list[Row]]], wanted: dict[int, list[Row]]) -> None:
    """Each batch is there, and has the rows that it must have each time that it was written."""
    for batch, must in wanted.items():
        if not rows.get(batch):
            raise Violation(f"batch {batch} was committed and is not there")
        for written in rows[batch]:
            if written != must:
                raise Violation(f"batch {batch} has the rows {written} and must have {must}")


def check_journal(journal: Journal, job: str) -> int:
    """Nothing was written under an epoch after the grant of a newer one; how many births there are."""
    late = journal.late(job)
    if late:
        raise Violation(f"writes of fenced drivers were accepted: {late}; epochs were granted at {journal.grants(job)}")
    grants = journal.grants(job)
    if sorted(grants) != list(range(1, len(grants) + 1)):
        raise Violation(f"the grants of some epochs are not on record: {grants}")
    return len(journal.births(job))
