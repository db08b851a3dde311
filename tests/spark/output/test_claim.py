"""A service that does not know the job whose output is there is refused before its first batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from milepost.errors import JobUnknown
from milepost.spark import Job, published_batches
from milepost.spark.output.claim import claim
from milepost.spark.output.file_systems import LocalFiles
from testbed.server import ServerProcess
from tests.spark.jobs import Place, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

Function = Callable[["DataFrame", int], None]
FIRST, SECOND = "0" * 31 + "1", "0" * 31 + "2"


@pytest.fixture
def stranger(place: Place, tmp_path: Path) -> Iterator[Place]:
    """The same job at a service that is empty; nothing but the address differs."""
    with ServerProcess(tmp_path / "stranger") as service:
        yield replace(place, url=service.start().url)


@pytest.mark.parametrize("way", ["files", "exactlyOnce"])
def test_a_stranger_is_refused_by_what_lies_beside_the_output(place: Place, stranger: Place, way: str) -> None:
    entered: list[int] = []

    def function(job: Job) -> Function:
        if way == "files":
            return job.files(place.output)
        return job.exactlyOnce(lambda _, context: entered.append(context.batchId), beside=place.output)

    with place.lead() as job:
        finish(job, place.start(job, function(job)))
    before = sorted(Path(place.output).rglob("*"))
    with pytest.raises(JobUnknown, match=r"_milepost/job-.*is the address right"), stranger.lead() as job:
        function(job)
    assert sorted(Path(place.output).rglob("*")) == before
    assert entered == ([] if way == "files" else [0, 1])
    with place.lead(must_exist=True) as job:
        finish(job, place.start(job, function(job)))
        assert job.published == 1
    if way == "files":
        assert len(published_batches(place.spark, place.url, place.name)) == 2


def test_who_removes_it_begins_anew(place: Place, stranger: Place) -> None:
    with place.lead() as job:
        finish(job, place.start(job, job.files(place.output)))
    shutil.rmtree(place.output)
    with stranger.lead() as job:
        finish(job, place.start(job, job.files(place.output)))
        assert job.published == 1


def test_jobs_of_other_names_share_an_output(tmp_path: Path) -> None:
    """Also where one name is the beginning of the other."""
    for store in ("flights", f"flights-{FIRST}", f"flights-{SECOND}-{FIRST}"):
        claim(LocalFiles(), f"file:{tmp_path}", store, FIRST)
        claim(LocalFiles(), f"file:{tmp_path}", store, FIRST)
        with pytest.raises(JobUnknown, match=f"{FIRST}.*but {SECOND}"):
            claim(LocalFiles(), f"file:{tmp_path}", store, SECOND)


def test_of_two_that_begin_at_once_neither_publishes(tmp_path: Path) -> None:
    """The later one finds the other's claim behind its own, and so does one that comes back."""

    class Late(LocalFiles):
        def write_new(self, path: str, content: bytes) -> None:
            claim(LocalFiles(), f"file:{tmp_path}", "flights", SECOND)
            super().write_new(path, content)

    with pytest.raises(JobUnknown):
        claim(Late(), f"file:{tmp_path}", "flights", FIRST)
    with pytest.raises(JobUnknown):
        claim(LocalFiles(), f"file:{tmp_path}", "flights", SECOND)


def test_a_driver_of_the_same_job_may_come_first(tmp_path: Path) -> None:
    class Late(LocalFiles):
        def write_new(self, path: str, content: bytes) -> None:
            super().write_new(path, b"")
            super().write_new(path, content)

    claim(Late(), f"file:{tmp_path}", "flights", FIRST)
    claim(LocalFiles(), f"file:{tmp_path}", "flights", FIRST)
