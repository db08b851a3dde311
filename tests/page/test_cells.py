"""The page of one cell shows the jobs of all, through the one address that the browser reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

import milepost
from milepost import moving
from milepost.core.cell_list import CellList
from testbed.server import ServerProcess
from tests.page.files import commit_batch
from tests.page.screen import Screen

NAMES = ("a", "b")


@contextmanager
def two_cells(place: Path) -> Iterator[dict[str, ServerProcess]]:
    """Two cells that have each other's address in a file."""
    made = {name: ServerProcess(place / name) for name in NAMES}
    (place / "list").write_text("".join(f"{name}={server.url}\n" for name, server in made.items()))
    with ExitStack() as running:
        for name, server in made.items():
            server.directory.mkdir()
            server.flags = flags_of(name, place)
            running.enter_context(server).start()
        yield made


def flags_of(cell: str, place: Path) -> tuple[str, ...]:
    return ("--cell", cell, "--cells", ",".join(NAMES), "--cell-addresses", f"@{place / 'list'}")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    """Two cells, each with a job that a driver leads."""
    place = tmp_path_factory.mktemp("cells")
    with two_cells(place) as made, milepost.Client(f"@{place / 'list'}") as client, ExitStack() as running:
        for name, server in made.items():
            job = job_in(name)
            of_job = running.enter_context(client.of_job(job, begin=True))
            running.enter_context(of_job.session(ttl=600, holder=f"{job}@spark-{name}")).store(job).campaign()
            commit_batch(server, job, 7)
        yield made


def job_in(cell: str, prefix: str = "flights") -> str:
    """The name of a job that begins in a cell."""
    return next(job for number in range(100) if chosen(job := f"{prefix}-{number}") == cell)


def chosen(job: str) -> str:
    """The cell in which a job begins."""
    return CellList(dict.fromkeys(NAMES, ("http://x",))).chosen(job)


def test_the_jobs_of_all_cells_are_in_one_list(screen: Screen, cells: dict[str, ServerProcess]) -> None:
    screen.open(f"{cells['a'].url}/")
    for name in NAMES:
        expect(screen.row(job_in(name)).locator(".job-cell")).to_have_text(f"cell {name}")
    chips = screen.page.get_by_role("navigation", name="Cells").get_by_role("link")
    expect(chips).to_have_text([re.compile(rf"{text} [1-9]\d*") for text in ("All cells", "a", "b")])
    assert screen.barriers() == []
    chips.last.click()
    expect(screen.row(job_in("a"))).to_have_count(0)
    assert screen.page.url.endswith("#/?cell=b")
    screen.page.reload()
    expect(screen.live().row(job_in("b"))).to_be_visible()
    expect(screen.row(job_in("a"))).to_have_count(0)


def test_a_job_of_another_cell_is_shown_and_its_own_page_named(screen: Screen, cells: dict[str, ServerProcess]) -> None:
    job = job_in("b")
    screen.open(f"{cells['a'].url}/")
    screen.page.get_by_role("link", name=job).click()
    expect(screen.part("Who leads")).to_contain_text(f"{job}@spark-b")
    expect(screen.part("What became of it")).to_contain_text("batch 7")
    expect(screen.page.get_by_role("button", name="Stop")).to_have_count(0)
    notice = screen.notice("This job is in the cell b")
    assert screen.barriers() == []
    assert not [each for each in screen.asked if each.endswith("/events")]
    notice.get_by_role("link", name=cells["b"].url).click()
    expect(screen.page.get_by_role("button", name="Stop…", exact=True)).to_be_visible()
    assert screen.page.url.startswith(cells["b"].url)


def test_the_sessions_of_all_cells_are_in_one_list(screen: Screen, cells: dict[str, ServerProcess]) -> None:
    screen.open(f"{cells['a'].url}/#/sessions")
    for name, ends in (("a", 1), ("b", 0)):
        row = screen.page.get_by_role("row").filter(has_text=f"{job_in(name)}@spark-{name}")
        expect(row.locator("[data-label=Cell]")).to_have_text(name)
        expect(row.get_by_role("button")).to_have_count(ends)
    screen.page.get_by_role("link", name=f"{job_in('b')} (1)").click()
    expect(screen.notice("This job is in the cell b")).to_be_visible()


def test_a_replica_that_does_not_lead_shows_all_as_well(
    screen: Screen, cells: dict[str, ServerProcess], tmp_path: Path
) -> None:
    leader = cells["a"]
    flags = flags_of("a", leader.directory.parent)
    with ServerProcess(tmp_path, *flags, pointers=leader.pointers, blobs=leader.blobs) as follower:
        screen.open(f"{follower.start(until='/readyz').url}/")
        expect(screen.notice("This replica does not lead")).to_contain_text(leader.url)
        for name in NAMES:
            expect(screen.row(job_in(name))).to_be_visible()
        screen.page.get_by_role("link", name=job_in("a")).click()
        expect(screen.part("Who leads")).to_contain_text("@spark-a")
        expect(screen.page.get_by_role("button", name="Stop")).to_have_count(0)


def test_the_page_of_a_job_that_is_moved_leads_to_where_it_is(screen: Screen, cells: dict[str, ServerProcess]) -> None:
    job = job_in("b", "moved")
    with milepost.Client(f"@{cells['a'].directory.parent / 'list'}") as client:
        with client.of_job(job, begin=True) as there, there.session() as session:
            session.store(job).campaign()
            session.store(job).resign()
        screen.open(f"{cells['a'].url}/#/jobs/{job}?cell=b")
        expect(screen.part("Who leads")).to_contain_text("No driver")
        assert moving.move(client, job, "a") is not None
    screen.later().page.get_by_role("link", name=f"{job} in the cell a").click()
    expect(screen.part("What became of it")).to_contain_text("Moved from the cell b")
    expect(screen.notice("This job is in the cell")).to_have_count(0)
    screen.page.get_by_role("link", name="Jobs", exact=True).first.click()
    expect(screen.row(job).locator(".job-cell")).to_have_text("cell a")


def test_pages_go_on_in_each_cell_where_the_one_before_ended(screen: Screen, tmp_path: Path) -> None:
    """The one with many jobs is cut off, so later names of the other one have to wait for the next page."""
    with two_cells(tmp_path) as cells, milepost.Client(f"@{tmp_path / 'list'}") as client:
        in_b = {name for name in (f"m-{number:03}" for number in range(500)) if chosen(name) == "b"}
        many = sorted(in_b)[:203]
        with client.by_cell()["b"].session(ttl=600) as session:
            for job in many:
                client.of_job(job, begin=True)
                session.store(job).campaign()
        early, late = job_in("a", "a-early"), job_in("a", "z-late")
        with client.by_cell()["a"].session(ttl=600) as session:
            for job in (early, late):
                client.of_job(job, begin=True)
                session.store(job).campaign()
            screen.open(f"{cells['a'].url}/")
            expect(screen.page.locator(".job-link")).to_have_count(201)
            expect(screen.row(early)).to_be_visible()
            expect(screen.row(late)).to_have_count(0)
            screen.page.get_by_role("link", name="Next jobs by name").click()
            expect(screen.page.locator(".job-link")).to_have_text([*many[200:], late])


def test_a_cell_that_is_away_is_named_and_comes_back(screen: Screen, cells: dict[str, ServerProcess]) -> None:
    screen.open(f"{cells['a'].url}/")
    expect(screen.row(job_in("b"))).to_be_visible()
    cells["b"].kill()
    away = screen.later().notice("Cell b does not answer, so its jobs are not shown")
    expect(away).to_contain_text("no replica of the cell b answers")
    expect(screen.row(job_in("a"))).to_be_visible()
    expect(screen.row(job_in("b"))).to_have_count(0)
    expect(screen.freshness).to_have_text("Live")
    screen.page.get_by_role("link", name="Replicas").click()
    expect(screen.row("b")).to_contain_text("away")
    expect(screen.row("a").get_by_role("cell").first).to_have_text("led")
    cells["b"].start()
    expect(screen.later(10).row("b").get_by_role("cell").first).to_have_text("led")
    screen.page.get_by_role("link", name="Jobs").click()
    expect(screen.row(job_in("b"))).to_be_visible()
    expect(away).to_have_count(0)


def test_a_frozen_cell_delays_the_others_by_its_deadline_alone(screen: Screen, cells: dict[str, ServerProcess]) -> None:
    cells["b"].pause()
    try:
        screen.open(f"{cells['a'].url}/")
        expect(screen.notice("Cell b does not answer")).to_be_visible()
        expect(screen.row(job_in("a"))).to_be_visible()
    finally:
        cells["b"].resume()
