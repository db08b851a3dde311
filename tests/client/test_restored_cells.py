"""A cell is put back from older records below Milepost: no job is taken from them in silence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

import milepost
from milepost.core import moving as steps
from milepost.core.cell_list import CellList
from milepost.errors import DeadlineExceeded, InvalidRequest
from milepost.moving import drop_copy, move
from testbed.ports import Port
from tests.client.conftest import cell, serving
from tests.client.test_cells import epoch_of, job_of, led, listed
from tests.client.test_moving import Mover

pytestmark = pytest.mark.later


def test_a_copy_in_a_cell_that_grants_only_high_epochs_is_dropped_as_the_older_one(tmp_path: Path) -> None:
    """The cell was restored from before the move, with ``--epochs-above``: its first grant there would make the copy
    look like the newer one.
    """
    name = job_of("a")
    ports = {each: Port() for each in ("a", "b")}

    def restarted(of: str, *flags: str) -> Any:
        (tmp_path / of).mkdir(exist_ok=True)
        return serving(tmp_path / of, "--cell", of, "--cells", "a,b", *flags, port=ports[of])

    alone = {each: f"http://{port.address}" for each, port in ports.items()}
    with milepost.Client(";".join(f"{each}={url}" for each, url in alone.items()), timeout=60.0) as client:
        with restarted("a"), restarted("b"):
            led(client, name)
            body = {"cells": CellList.parse("a=http://x;b=http://x").digest}
            placed = httpx.put(f"{alone['b']}/v1/jobs/{name}/placement", json=body, timeout=60.0)
            assert placed.status_code == 200
            assert [led(milepost.Client(alone["b"]), name) for _ in range(3)] == [1, 2, 3]
        with restarted("a", "--epochs-above", "9"):
            with restarted("b"), pytest.raises(InvalidRequest, match="'b' with --epochs-above 9 first"):
                drop_copy(client, name, "b")
            assert epoch_of(alone["a"], name) == 1
            with restarted("b", "--epochs-above", "9"):
                assert drop_copy(client, name, "b").epoch == 10
                assert led(client, name) == 11
                assert client.of_job(name).cell == "b"


def not_begun(client: milepost.Client, name: str, why: str) -> None:
    """Try to begin a job, which must fail for a reason that the cells give; on a busy machine it takes them longer."""
    for seconds in (5.0, 20.0, 60.0):
        with pytest.raises(DeadlineExceeded) as raised:
            client.of_job(name, begin=True, timeout=seconds)
        if why in str(raised.value):
            return
    raise AssertionError(str(raised.value))


def test_a_job_whose_new_cell_has_lost_it_is_named_and_can_be_begun_there(tmp_path: Path) -> None:
    """The records of the new cell were put back from before the move: here it had none."""
    port, name = Port(), job_of("a")
    with cell(tmp_path / "a", "a", "a,b") as a:
        with (
            cell(tmp_path / "b", "b", "a,b", port) as b,
            milepost.Client(listed(a=a, b=b), timeout=60.0) as client,
        ):
            led(client, name)
            assert move(client, name, "b") is not None
        with cell(tmp_path / "anew", "b", "a,b", port) as b, milepost.Client(listed(a=a, b=b)) as client:
            not_begun(client, name, f"no cell has the job '{name}': a says moved to b, b says none;")
            body = {"cells": CellList.parse("a=http://x;b=http://x").digest}
            assert httpx.put(f"{b.url}/v1/jobs/{name}/placement", json=body, timeout=60.0).status_code == 200
            assert led(client, name) == 1


def test_a_copy_from_the_midst_of_a_move_is_not_taken_for_the_job(tmp_path: Path) -> None:
    kept, pointers = tmp_path / "kept", tmp_path / "b" / "pointers"
    port, name = Port(), job_of("a")
    with (
        cell(tmp_path / "a", "a", "a,b") as a,
        milepost.Client(f"{listed(a=a)};b=http://{port.address}", timeout=60.0) as client,
    ):
        with cell(tmp_path / "b", "b", "a,b", port):
            led(client, name)
            mover = Mover(client, name, "b")
            mover.freeze()
            page = mover.run(steps._page(mover.source, None, None))
            mover.run(steps._arrive(mover.source, mover.target, mover.id, "a", page.departing, None))
        shutil.copytree(pointers, kept)
        with cell(tmp_path / "b", "b", "a,b", port):
            mover.copy()
            mover.leave()
        shutil.rmtree(pointers)
        shutil.copytree(kept, pointers)
        with cell(tmp_path / "b", "b", "a,b", port) as b:
            not_begun(client, name, "is not complete: it is older than the tombstone in 'a'")
            assert httpx.get(f"{b.url}/v1/jobs/{name}/placement", timeout=60.0).json()["placement"] == "arriving"
