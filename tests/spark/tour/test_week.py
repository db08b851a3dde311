"""The owner's week: what docs/jobs.md shows, done to jobs of each kind, and all sums are exact after each act.

A job of `Job.files` with state of Spark's operators, one with managed state, and a jar under ``milepost run``. Each act
takes two commands at most, and is in the history.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import milepost.spark
from milepost.spark import Job
from tests.spark.jobs import Place, finish
from tests.spark.stateful.processors import COUNTED, Count
from tests.spark.stateful.texts import WORDS, write_texts
from tests.spark.tour.owner import Owner, running
from tests.spark.trials.queries import KINDS, PROVIDERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from milepost.spark import BatchContext

pytestmark = [pytest.mark.spark, pytest.mark.long]

Output = dict[int, dict[Any, int]]
"""Of each published batch the sum or count of each key."""


class Clone(Place):
    """A clone reads the input of its original, and publishes elsewhere."""

    @property
    def output(self) -> str:
        return str(self.directory / "clone")


@dataclass(frozen=True)
class Kind:
    """A job: how its query is started by a release that is right or ``wrong``, and what its output must be."""

    start: Callable[[Place, Job, bool, bool], StreamingQuery]
    add_input: Callable[[Place, int], None]
    read: Callable[[Place], Output]
    expected: Callable[[Place, int], list[dict[Any, int]]]
    rescales: bool


def sums(place: Place, job: Job, wrong: bool, forever: bool) -> StreamingQuery:
    def transform(frame: DataFrame, _: BatchContext) -> DataFrame:
        return frame.selectExpr("k", f"w + {int(wrong)} AS w")

    return place.start(job, job.files(place.output, transform=transform), "aggregation", forever=forever)


def sums_read(place: Place) -> Output:
    found: Output = {}
    for row in milepost.spark.read_published(place.spark, place.url, place.name).collect():
        assert found.setdefault(row.batch, {}).setdefault(row.k, row.w) == row.w
    return found


def sums_expected(_: Place, batches: int) -> list[dict[Any, int]]:
    return [dict(rows) for rows in KINDS["aggregation"].expected(batches)]


class WrongCount(Count):
    """Counts each word twice, in the state as well."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in [*rows]:
            yield from super().handleInputRows(key, iter([frame, frame]), timerValues)


def counts(place: Place, job: Job, wrong: bool, forever: bool) -> StreamingQuery:
    def transform(frame: DataFrame, _: BatchContext) -> DataFrame:
        processor = WrongCount() if wrong else Count()
        return milepost.spark.stateful(job, frame, key="word", processor=processor, output_type=COUNTED, partitions=4)

    texts = place.spark.readStream.option("maxFilesPerTrigger", 1).text(str(place.directory / "texts"))
    writer = texts.selectExpr(WORDS).writeStream.option("checkpointLocation", job.checkpointLocation)
    writer = writer.foreachBatch(job.files(place.output, transform=transform))
    return (writer if forever else writer.trigger(availableNow=True)).start()


def add_texts(place: Place, files: int) -> None:
    (place.directory / "texts").mkdir(exist_ok=True)
    more = place.directory / f"more-{files}"
    write_texts(more, files, 20)
    for file in more.iterdir():
        if not (place.directory / "texts" / file.name).exists():
            file.rename(place.directory / "texts" / file.name)


def counts_read(place: Place) -> Output:
    found: Output = {}
    for row in milepost.spark.read_published(place.spark, place.url, place.name).collect():
        assert row.word not in found.setdefault(row.batch, {})
        found[row.batch][row.word] = row["count"]
    return found


def counts_expected(place: Place, batches: int) -> list[dict[Any, int]]:
    texts = write_texts(place.directory / "same", batches, 20)
    total, found = Counter[str](), []
    for text in texts:
        total += text
        found.append({word: total[word] for word in text})
    return found


FILES = Kind(sums, Place.add_input, sums_read, sums_expected, True)
MANAGED = Kind(counts, add_texts, counts_read, counts_expected, False)


@pytest.fixture
def rocksdb(place: Place) -> Iterator[None]:
    """The state store that can be rescaled."""
    for key, value in PROVIDERS["rocksdb"].items():
        place.spark.conf.set(key, value)
    yield
    for key in PROVIDERS["rocksdb"]:
        place.spark.conf.unset(key)


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize("kind", [pytest.param(FILES, id="files"), pytest.param(MANAGED, id="managed")])
def test_the_week_of_a_job(kind: Kind, place: Place, java_options: str) -> None:
    owner, job = Owner(place.url), place.name

    def to_the_end(of: Place = place, wrong: bool = False) -> None:
        with of.lead() as led:
            finish(led, kind.start(of, led, wrong, False))

    right = kind.expected(place, 8)

    def exact(*batches: int, of: Place = place, files: int = 0) -> bool:
        """The published batches have these numbers, and the rows of the files of input from ``files`` on."""
        found, expected = kind.read(of), right[files:]
        return sorted(found) == [*batches] and [found[each] for each in batches] == expected[: len(batches)]

    # Monday: the job runs, gets a savepoint, and is handed over.
    kind.add_input(place, 3)
    with contextlib.ExitStack() as stack:
        with running(place, lambda led: kind.start(place, led, False, True), 2):
            owner.does("savepoint", f"files savepoint {job} monday")
            stack.enter_context(owner.doing("hand over", f"jobs hand-over {job} --force"))
        to_the_end()
    assert exact(0, 1, 2)

    # Tuesday: a bad release.
    kind.add_input(place, 5)
    to_the_end(wrong=True)
    assert sorted(kind.read(place)) == [0, 1, 2, 3, 4]
    assert not exact(0, 1, 2, 3, 4)

    # Wednesday: back to Monday. The fix is tried on a clone, and then runs.
    owner.does("go back", f"jobs stop {job}", f"jobs restore {job} monday")
    assert exact(0, 1, 2)
    clone = Clone(place.spark, place.url, f"{job}-fix", place.directory)
    owner.does("clone", f"jobs clone {job} {clone.name}")
    to_the_end(clone)
    assert exact(3, 4, of=clone, files=3)
    assert exact(0, 1, 2)
    owner.does("start", f"jobs start {job}")
    to_the_end()
    assert exact(0, 1, 2, 3, 4)

    # Thursday: more partitions, where the state is of Spark's operators.
    rescale = ("jobs", "rescale", job, "7", "--conf", f"spark.driver.extraJavaOptions={java_options}")
    if kind.rescales:
        owner.says(*rescale)
        number = 6  # batch 5 is the one of the rescale
    else:
        assert "UnsafeQuery" in owner.refused(*rescale)
        number = 5
    kind.add_input(place, 6)
    to_the_end()
    assert exact(0, 1, 2, 3, 4, number)

    # Friday: old output goes, and what was only tried.
    owner.does("expire", f"expire {job} --before 3")
    to_the_end()
    assert exact(3, 4, number, files=3)
    owner.does("drop", f"jobs drop {clone.name} --yes")
    assert exact(3, 4, number, files=3)
    owner.does("drop", f"jobs drop {job} --yes")
    assert job not in owner.says("jobs", "ls")

    assert max(owner.commands.values()) <= 2
    told = [entry["kind"] for entry in owner.history(job)]
    acts = ["savepoint-made", "hand-over-requested", "stop-requested", "rolled-back", "started", "dropped"]
    assert [each for each in told if each in acts] == acts
    assert [each["kind"] for each in owner.history(clone.name) if each["kind"] in ("cloned", "dropped")] == [
        "cloned",
        "dropped",
    ]
