"""The commands over several cells: what is about a job finds it, and a line of a list has its cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import milepost
from milepost.cli.cells import proposed
from milepost.core.cell_list import CellList
from milepost.errors import CellsDiffer
from milepost.moving import move
from tests.client.cli.conftest import Run
from tests.client.conftest import Service
from tests.client.test_cells import blocks_of_the_page, job_of, led, listed


@pytest.fixture
def all_cells(
    run: Run,  # noqa: ARG001 - it sets the variable before
    cells: dict[str, Service],
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, str]:
    """A job in each cell, led once; the environment has the list of the cells, for ``run``."""
    monkeypatch.setenv("MILEPOST_URL", listed(**cells))
    jobs = {name: job_of(name, prefix="cli") for name in cells}
    with milepost.Client(listed(**cells)) as client:
        for job in jobs.values():
            led(client, job)
    return jobs


def lines(run: Run, *command: str) -> list[dict[str, Any]]:
    ended = run(*command, "--json")
    assert ended.returncode == 0, ended.stderr
    found: list[dict[str, Any]] = json.loads(ended.stdout)
    return found


def test_each_line_of_a_list_has_its_cell(run: Run, all_cells: dict[str, str], cells: dict[str, Service]) -> None:
    for command, member in ((("jobs", "ls"), "job"), (("ls",), "store"), (("epochs",), "store")):
        found = {line[member]: line["cell"] for line in lines(run, *command)}
        assert {job: found[job] for job in all_cells.values()} == {job: cell for cell, job in all_cells.items()}
    assert [(line["cell"], line["replica"]) for line in lines(run, "status")] == [
        (name, one.url.removeprefix("http://")) for name, one in cells.items()
    ]
    with milepost.Client(cells["b"].url) as client, client.session(holder="me") as session:
        (own,) = (line for line in lines(run, "sessions") if line["session"] == session.id)
        assert own["cell"] == "b"
        assert run("sessions", "show", session.id).returncode == 0
        assert run("sessions", "end", session.id).returncode == 0
    assert "CELL" in run("jobs", "ls").stdout.decode().splitlines()[0]


def test_a_cell_that_is_away_is_named_and_the_others_are_shown(
    run: Run, all_cells: dict[str, str], cells: dict[str, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_URL", f"a={cells['a'].url};b=http://127.0.0.1:9")
    for command in (("jobs", "ls"), ("fsck",), ("sessions",)):
        ended = run("--timeout", "2", *command)
        assert ended.returncode == 3, ended.stderr
        assert "cell b" in ended.stderr.decode()
        assert (all_cells["a"] in ended.stdout.decode()) is (command == ("jobs", "ls"))


def test_a_command_about_a_job_finds_its_cell(run: Run, all_cells: dict[str, str], tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("state")
    for job in all_cells.values():
        assert run("jobs", "show", job).returncode == 0
        assert run("put", job, "h", str(state), "--campaign").returncode == 0
        assert run("get", job, "h").stdout == b"state"
        assert run("jobs", "history", job).returncode == 0
        assert run("rm", job, "h", "--campaign").returncode == 0
    assert run("jobs", "show", "nosuch").returncode == 1
    assert run("put", "new-by-put", "h", str(state)).returncode == 0
    assert run("get", "new-by-put", "h").stdout == b"state"


def test_a_job_is_stopped_moved_and_started_as_on_the_page(run: Run, all_cells: dict[str, str]) -> None:
    """docs/cells.md"""
    commands, job = blocks_of_the_page()[-2], all_cells["a"]
    for line in commands.splitlines():
        ended = run(*line.replace("flights", job).split()[1:])
        assert ended.returncode == 0, ended.stderr
    assert run("jobs", "move", job, "--to", "b").stdout.decode() == f"{job} is in the cell b already\n"
    refused = run("jobs", "move", job, "--to", "c")
    assert refused.returncode == 1
    assert "there is no cell 'c'; those of the list are a, b" in refused.stderr.decode()
    (shown,) = (each for each in lines(run, "jobs", "ls") if each["job"] == job)
    assert (shown["cell"], shown["state"]) == ("b", "resigned")
    moved, granted = lines(run, "jobs", "history", job)[1:3]
    assert (moved["kind"], moved["source"], moved["epoch"]) == ("moved", "a", granted["epoch"])
    assert "milepost jobs move" in str(granted["holder"])
    assert run("jobs", "move", job, "--to", "a").returncode == 0


def test_the_cells_are_listed_with_their_jobs(run: Run, all_cells: dict[str, str], cells: dict[str, Service]) -> None:
    assert all_cells
    listed_ = lines(run, "cells", "ls")
    assert [(each["cell"], each["leader"]) for each in listed_] == [(name, one.url) for name, one in cells.items()]
    jobs = lines(run, "jobs", "ls")
    assert [each["jobs"] for each in listed_] == [sum(job["cell"] == name for job in jobs) for name in cells]
    moves = lines(run, "cells", "balance", "--dry-run")
    counts = {each["cell"]: each["jobs"] for each in listed_}
    for each in moves:
        counts[each["cell"]], counts[each["to"]] = counts[each["cell"]] - 1, counts[each["to"]] + 1
    assert max(counts.values()) - min(counts.values()) < 2
    assert run("cells", "balance").returncode == 2
    assert run("cells", "ls", "-u", cells["a"].url).returncode == 1


def test_jobs_that_are_not_led_are_moved_first() -> None:
    jobs = {"a": {"j1": "led", "j2": "resigned", "j3": "led", "j4": "stopped", "j5": "led"}, "b": {}, "c": {"k": "led"}}
    moves = [(each.job, each.to) for each in proposed(jobs)]
    assert moves == [("j2", "b"), ("j4", "b"), ("j1", "c")]
    assert list(proposed({"a": {"j": "led"}, "b": {}})) == []


def test_a_clone_begins_in_the_cell_of_its_original(run: Run, all_cells: dict[str, str]) -> None:
    refused = run("jobs", "clone", all_cells["a"], job_of("b", prefix="clone"))
    assert refused.returncode == 1
    assert "take a name for the clone that begins there, such as" in refused.stderr.decode()


def test_a_backup_has_the_stores_of_all_cells_and_is_restored_into_them(
    run: Run, all_cells: dict[str, str], tmp_path: Path
) -> None:
    state, saved = tmp_path / "state", tmp_path / "saved.tar"
    state.write_text("state")
    names = {cell: f"{job}-back" for cell, job in all_cells.items()}
    for job in all_cells.values():
        assert run("put", job, "kept", str(state), "--campaign").returncode == 0
    stores = [part for job in all_cells.values() for part in ("--store", job)]
    assert run("backup", str(saved), *stores).returncode == 0
    renamed = [part for cell, job in all_cells.items() for part in ("--rename", f"{job}={names[cell]}")]
    done = run("restore", str(saved), *renamed)
    # an epoch that was granted in the other cell must not be granted again, so the renamed stores are refused by theirs
    assert done.returncode == 1, done.stderr
    assert "this service would grant 1" in done.stderr.decode()


@pytest.mark.usefixtures("all_cells")
def test_a_job_that_two_cells_have_is_named_by_fsck_and_led_in_neither(run: Run, cells: dict[str, Service]) -> None:
    job = job_of("a", prefix="twice")
    with milepost.Client(listed(**cells)) as client:
        led(client, job)
    healthy = run("fsck", "--json", "--store", job)
    assert (healthy.returncode, json.loads(healthy.stdout)) == (0, []), healthy.stderr
    # as if the cell b were restored from a backup from before the job was moved to a
    body = {"cells": CellList.parse(listed(**cells)).digest}
    assert httpx.put(f"{cells['b'].url}/v1/jobs/{job}/placement", json=body, timeout=60.0).status_code == 200
    with milepost.Client(cells["b"].url) as client, client.session(holder="me") as session:
        session.store(job).campaign()
    with milepost.Client(listed(**cells)) as client:
        with pytest.raises(CellsDiffer, match=f"both have the job '{job}'"):
            led(client, job)
        assert client.of_job(job).store(job).current_epoch().epoch == 1
    fsck, drop = (line.replace("flights", job).split()[1:] for line in blocks_of_the_page()[-1].splitlines())
    ended = run(*fsck, "--json", "--store", job)
    assert ended.returncode == 1
    (finding,) = json.loads(ended.stdout)
    assert (finding["store"], finding["kind"]) == (job, "job in two cells")
    assert finding["reason"] == "the cell a has it with epoch 1 and the cell b has it with epoch 1"
    assert finding["see"] == "docs/cells.md#a-job-in-two-cells"
    refused = run(*drop)
    assert refused.returncode == 1
    assert "its epoch is 1, and in 'a' it is 1. Nothing was dropped" in refused.stderr.decode()
    with milepost.Client(cells["a"].url) as client:
        assert led(client, job) == 2
    assert run(*drop).stdout.decode() == f"{job} is in the cell a only: the copy in b is dropped\n"
    assert "there is no copy" in run(*drop).stderr.decode()
    with milepost.Client(listed(**cells)) as client:
        assert led(client, job) == 3
        for to in ("b", "a"):
            assert move(client, job, to) is not None
        assert led(client, job) == 6


def test_a_leader_steps_down_in_the_cell_that_is_named(run: Run, all_cells: dict[str, str]) -> None:
    assert all_cells
    refused = run("step-down")
    assert refused.returncode == 2
    assert "names one of the cells: a, b" in refused.stderr.decode()
    assert run("step-down", "--cell", "b").returncode == 0
