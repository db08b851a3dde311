"""Batches that expire: the record says so first, then files go, and readers name the gap."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import milepost
from milepost.errors import BatchesGone, Fenced, UnsafeQuery
from milepost.job_record import JOB, Abandoned, JobRecord, decode
from milepost.spark import BatchContext, published_batches, read_published
from milepost.spark.output import manifest as manifest_module
from milepost.spark.output.file_systems import LocalFiles
from milepost.spark.output.listing import listed_in
from milepost.spark.output.manifest import Page, PageLink, PublishedBatch, delete_expired, extended, link_json, up_to
from milepost.timeline import UNRESTORED, restored
from milepost.wire import Code
from tests.spark.jobs import Place, finish, made_up
from tests.spark.output.test_files import EXPECTED, rows, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCHES = 11


class Dying(LocalFiles):
    """Files of which so many are deleted, and then the driver dies."""

    def __init__(self, deletes: int) -> None:
        self._left = deletes

    def delete(self, path: str) -> None:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        super().delete(path)


@pytest.fixture
def newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PageLink:
    """An output of eleven batches on pages of three; beside the first there is an attempt of another job."""
    monkeypatch.setattr(manifest_module, "PAGE_BATCHES", 3)
    head: tuple[PageLink, Page] | None = None
    for batch in range(BATCHES):
        directory = tmp_path / f"batch={batch}" / "e1-ab"
        directory.mkdir(parents=True)
        (directory / "part-0").touch()
        page = extended(head, PublishedBatch(batch, f"batch={batch}/e1-ab", (("part-0", 0),)), "")
        if head is not None and page.previous != head[0]:
            (tmp_path / head[0].file).unlink()
        content = page.encode()
        (tmp_path / f"page-{batch}").write_bytes(content)
        head = page.link(f"page-{batch}", content), page
    (tmp_path / "batch=0" / "e1-other").mkdir()
    assert head is not None
    return head[0]


def batches_of(place: Place) -> set[str]:
    return {path.name for path in Path(place.output).glob("batch=*")}


def left(output: Path) -> list[str]:
    found = [path.name for path in output.iterdir() if path.name.startswith("page")]
    return sorted([*found, *(str(path.relative_to(output)) for path in output.glob("batch=*/*"))])


@pytest.mark.parametrize("before", [0, 1, 4, 6, 10])
def test_what_is_expired_goes_and_nothing_else_wherever_a_driver_dies(
    tmp_path: Path, newest: PageLink, before: int
) -> None:
    kept = [f"batch={batch}/e1-ab" for batch in range(before, BATCHES)]
    pages = [f"page-{last}" for last in (2, 5, 8, 10) if last >= before]
    expected = sorted([*kept, *pages, "batch=0/e1-other"])
    for deletes in range(before + 1):
        try:
            delete_expired(Dying(deletes), f"file:{tmp_path}", newest, before)
        except KeyboardInterrupt:
            assert set(expected) <= set(left(tmp_path))
    delete_expired(LocalFiles(), f"file:{tmp_path}", newest, before)
    assert left(tmp_path) == expected
    assert [path.name for path in tmp_path.glob("batch=*") if not any(path.iterdir())] == []


class Pointer:
    """The pointer of a job, of which a newer driver may lead; it notes what the output had when the record changed."""

    def __init__(self, output: Path, newest: PageLink, *, fenced: bool) -> None:
        manifest = {"kind": "files", "output": f"file:{output}", "page": link_json(newest)}
        self.record = JobRecord("job", 1, BATCHES - 1, manifest)
        self.store = SimpleNamespace(epoch=1)
        self.seen: list[list[str]] = []
        self._output, self._fenced = output, fenced

    def change(self, change: Any, _: Any = None) -> None:
        self.seen.append(left(self._output))
        if self._fenced:
            raise Fenced(Code.FENCED)
        self.record = change(self.record)


def test_the_record_says_it_before_a_file_goes(tmp_path: Path, newest: PageLink) -> None:
    everything, pointer = left(tmp_path), Pointer(tmp_path, newest, fenced=False)
    made_up(pointer).expire(before=4)
    assert pointer.seen == [everything]
    assert pointer.record.expired == 4
    assert "batch=3/e1-ab" not in left(tmp_path)
    made_up(pointer).expire(before=2)  # what has expired stays so, and nothing is to be said again
    assert (pointer.record.expired, len(pointer.seen)) == (4, 1)


def test_the_last_page_stays_after_a_rescale_which_is_a_batch_without_output(tmp_path: Path, newest: PageLink) -> None:
    everything, pointer = left(tmp_path), Pointer(tmp_path, newest, fenced=False)
    pointer.record = pointer.record.rescaling(BATCHES, 1).rescaled(BATCHES, 1)
    assert pointer.record.published == BATCHES
    with pytest.raises(ValueError, match="from 0 to 10"):
        made_up(pointer).expire(before=BATCHES)
    assert left(tmp_path) == everything


def test_a_rescale_after_a_restore_brings_no_abandoned_batch_back(tmp_path: Path, newest: PageLink) -> None:
    """The job went back to batch 6, and batches 7 and 8 are those of rescales."""
    timeline = restored(UNRESTORED, 6, 2)
    _, page = up_to(newest, lambda file: (tmp_path / file).read_bytes(), 8, timeline, lambda *_: "")
    assert page.batches[-1].batch == 6
    history = Abandoned(Pointer(tmp_path, newest, fenced=False).record.manifest, 8, timeline)
    assert [each.batch for each in listed_in(history, LocalFiles(), 0)] == list(range(7))


def test_a_driver_that_is_fenced_deletes_nothing(tmp_path: Path, newest: PageLink) -> None:
    everything = left(tmp_path)
    with pytest.raises(Fenced):
        made_up(Pointer(tmp_path, newest, fenced=True)).expire(before=4)
    assert left(tmp_path) == everything


@pytest.mark.parametrize("before", [-1, BATCHES])
def test_batches_that_are_not_published_do_not_expire(tmp_path: Path, newest: PageLink, before: int) -> None:
    with pytest.raises(ValueError, match=f"from 0 to {BATCHES - 1}"):
        made_up(Pointer(tmp_path, newest, fenced=False)).expire(before=before)


def test_a_job_that_publishes_in_another_way_has_nothing_that_expires() -> None:
    pointer = SimpleNamespace(record=JobRecord("job", 1, 3, {"rows": 3}), store=SimpleNamespace(epoch=1))
    with pytest.raises(UnsafeQuery, match=r"did not publish by job\.files"):
        made_up(pointer).expire(before=1)


@pytest.mark.spark
def test_readers_name_the_batches_that_are_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Expired ones of drivers before, and such whose files something else took. The job goes on, also meanwhile."""
    monkeypatch.setattr(manifest_module, "PAGE_BATCHES", 2)
    place.add_input(5)
    run(place)
    assert batches_of(place) == {"batch=0", "batch=1", "batch=2", "batch=3", "batch=4"}
    with milepost.Client(place.url) as client, client.session(ttl=60) as session:  # as `milepost expire` does
        store = session.store(place.name)
        store.campaign()
        handle = store.get_and_lock(JOB)
        store.replace(JOB, handle.version, decode(store.read(JOB)).expiring(1, 2).encode())
        store.resign()
    place.add_input(6)
    with place.lead() as job:
        job.files(place.output)
        assert batches_of(place) == {"batch=1", "batch=2", "batch=3", "batch=4"}
    with place.lead() as job:

        def expiring(frame: DataFrame, _: BatchContext) -> DataFrame:
            job.expire(before=3)
            return frame

        finish(job, place.start(job, job.files(place.output, transform=expiring)))
    everything = dict(enumerate(EXPECTED(6)))
    assert rows(read_published(place.spark, place.url, place.name)) == {n: everything[n] for n in (3, 4, 5)}
    assert "batches below 3" in caplog.text
    assert [each.batch for each in published_batches(place.spark, place.url, place.name, batches=[3, 5])] == [3, 5]
    for read in (read_published, published_batches):
        with pytest.raises(BatchesGone, match=r"batches 0, 2 are expired: the job has those from 3 on") as gone:
            read(place.spark, place.url, place.name, batches=[2, 0, 4])
        assert gone.value.batches == (0, 2)
    for file in Path(place.output).glob("batch=4/*/part-*"):
        file.unlink()
    with pytest.raises(BatchesGone, match=r"files of batches 4 of job .* are gone"):
        read_published(place.spark, place.url, place.name, batches=range(3, 6))
    chosen = read_published(place.spark, place.url, place.name, batches=[3, 5])
    assert rows(chosen) == {3: everything[3], 5: everything[5]}
    frame = read_published(place.spark, place.url, place.name)
    assert rows(frame.filter("batch >= 5 or batch in (3)")) == {3: everything[3], 5: everything[5]}
    place.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"FAILED_READ_FILE.*/batch=4/"):
            rows(frame)
    finally:
        place.spark.conf.unset("spark.sql.files.ignoreMissingFiles")


@pytest.mark.spark
@pytest.mark.parametrize("ignored", [False, True])
def test_output_that_spark_does_not_read_by_a_log_is_read_all_the_same(place: Place, *, ignored: bool) -> None:
    """Where the output itself lies in what Spark takes for a partition, or the session ignores logs of files."""
    output = place.output if ignored else f"{place.output}/k=7"
    run(place, output=output)
    setting = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
    place.spark.conf.set(setting, str(ignored).lower())
    try:
        assert rows(read_published(place.spark, place.url, place.name)) == dict(enumerate(EXPECTED(2)))
        for file in Path(output).glob("batch=1/*/part-*"):
            file.unlink()
        with pytest.raises(BatchesGone, match=r"files of batches 1 of job .* are gone"):
            read_published(place.spark, place.url, place.name)
    finally:
        place.spark.conf.unset(setting)
