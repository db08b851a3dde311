"""The chain of pages that names published files."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from milepost.errors import RecordUnreadable, UnsafeQuery
from milepost.job_record import published_by_files
from milepost.spark.output import manifest
from milepost.spark.output.manifest import (
    Page,
    PageLink,
    PublishedBatch,
    extended,
    link_from,
    link_json,
    load,
    pages,
)
from milepost.spark.output.sink import published_page


class Output:
    """An output directory in memory, with the pages of so many batches."""

    def __init__(self, batches: int) -> None:
        self.files: dict[str, bytes] = {}
        self.head: tuple[PageLink, Page] | None = None
        for batch in range(batches):
            self.publish(batch)

    def publish(self, batch: int) -> None:
        page = extended(self.head, published(batch), f"columns {batch}")
        content, file = page.encode(), f"page-{batch}"
        self.files[file] = content
        self.head = page.link(file, content), page

    @property
    def link(self) -> PageLink:
        assert self.head is not None
        return self.head[0]


def published(batch: int) -> PublishedBatch:
    return PublishedBatch(
        batch, f"batch={batch}/e1-ab", (("part-0.parquet", 10), ("part-1.parquet", 20)), f"schema {batch % 2}"
    )


def test_a_page_survives_being_written() -> None:
    output = Output(3)
    page = load(output.link, output.files.get)
    assert page == Page(tuple(published(batch) for batch in range(3)), "columns 2")
    assert page.frame == "schema 0"
    assert link_from(link_json(output.link)) == output.link


def test_a_page_of_a_release_that_kept_the_newest_schema_alone_is_read() -> None:
    raw = json.loads(Page((published(0), published(1)), "columns").encode())
    content = json.dumps({key: raw[key] for key in ("schema", "frame", "batches", "previous")}).encode()
    link = PageLink("page", hashlib.sha256(content).hexdigest(), 0, 1)
    page = load(link, lambda _: content)
    assert [batch.schema for batch in page.batches] == ["", "schema 1"]
    assert page.columns == "schema 1"


def test_full_pages_stay_and_are_named_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PAGE_BATCHES", 4)
    output = Output(11)
    found = list(pages(output.link, output.files.get))
    assert [[batch.batch for batch in page.batches] for page in found] == [[8, 9, 10], [4, 5, 6, 7], [0, 1, 2, 3]]
    kept = {"page-10", "page-7", "page-3"}
    assert list(pages(output.link, {name: output.files[name] for name in kept}.get)) == found


def test_large_pages_are_full_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PAGE_BYTES", 400)
    output = Output(20)
    found = list(pages(output.link, output.files.get))
    assert sum(len(page.batches) for page in found) == 20
    assert max(len(page.encode()) for page in found) < 800


def test_pages_before_what_is_wanted_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PAGE_BATCHES", 4)
    output = Output(11)
    del output.files["page-3"]
    assert len(list(pages(output.link, output.files.get, since=4))) == 2
    with pytest.raises(FileNotFoundError, match="page-3"):
        list(pages(output.link, output.files.get, since=3))


def test_another_file_of_the_same_name_is_refused() -> None:
    output = Output(1)
    output.files["page-0"] = output.files["page-0"].replace(b"part-0", b"part-9")
    with pytest.raises(RecordUnreadable, match="digest"):
        load(output.link, output.files.get)


def test_a_newer_schema_is_refused() -> None:
    content = Page((published(0),), "").encode().replace(b'"schema":1', b'"schema":2')
    link = Page((published(0),), "").link("page-0", content)
    with pytest.raises(RecordUnreadable, match="schema 2"):
        load(link, lambda _: content)


def test_a_job_goes_on_where_it_published_before() -> None:
    link = Output(1).link
    record = {"kind": "files", "output": "file:/out", "page": link_json(link)}
    assert published_page(None, -1) is None
    assert published_page(record, 0) == link
    assert published_page(record, 0, "file:/out") == link
    with pytest.raises(UnsafeQuery, match="file:/out"):
        published_page(record, 0, "file:/elsewhere")


@pytest.mark.parametrize("returned", [None, "files", {"kind": "mine"}, {"kind": "files", "paths": ["a", "b"]}])
def test_what_a_function_of_the_users_own_returned_is_not_taken_for_a_link(returned: Any) -> None:
    """Nothing is what most return. A reader would see an empty output, and the next driver none that it knows."""
    assert not published_by_files(returned)
    with pytest.raises(UnsafeQuery, match="did not publish by"):
        published_page(returned, 0)
