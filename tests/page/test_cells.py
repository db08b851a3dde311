"""The page of one cell shows the jobs of all, through the one address that the browser reaches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

import milepost
from milepost.core.cell_list import CellList
from testbed.server import ServerProcess
from tests.page.files import commit_batch
from tests.page.screen import Screen

NAMES = ("a", "b")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    """Two cells that have each other's address in a file, each with a job that a driver leads."""
    place = tmp_path_factory.mktemp("cells")
    file = place / "cells"
    made = {name: ServerProcess(place / name) for name in NAMES}
    file.write_text("".join(f"{name}={server.url}\n" for name, server in made.items()))
    with ExitStack() as running:
        for name, server in made.items():
            server.directory.mkdir()
            server.flags = ("--cell", name, "--cells", ",".join(NAMES), "--cell-addresses", f"@{file}")
            running.enter_context(server).start()
        for name, server in made.items():
            job = job_in(name)
            client = running.enter_context(milepost.Client(f"@{file}"))
            of_job = running.enter_context(client.of_job(job, begin=True))
            running.enter_context(of_job.session(ttl=600, holder=f"{job}@spark-{name}")).store(job).campaign()
            commit_batch(server, job, 7)
        yield made


def job_in(cell: str) -> str:
    cells = CellList(dict.fromkeys(NAMES, ("http://x",)))
    return next(job for number in range(100) if cells.chosen(job := f"flights-{number}") == cell)


def test_the_jobs_of_all_cells_are_in_one_list(screen: Screen, cells: dict[str, ServerProcess]) -> None:
    screen.open(f"{cells['a'].url}/")
    for name in NAMES:
        expect(screen.row(job_in(name)).locator(".job-cell")).to_have_text(f"cell {name}")
    expect(screen.page.get_by_role("navigation", name="Cells").get_by_role("link")).to_have_text(
        ["All cells 2", "a 1", "b 1"]
    )
    assert screen.barriers() == []
    screen.page.get_by_role("link", name="b 1").click()
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
    expect(screen.page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    assert screen.page.url.startswith(cells["b"].url)


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
