"""A client of several cells finds the one that has a job, and begins no job while it cannot know that none has it."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

import milepost
from milepost.core.cell_list import CellList
from milepost.errors import CellsDiffer, DeadlineExceeded, InvalidRequest, NotExist, SessionUnknown
from testbed.ports import Port
from tests.client.conftest import Service, cell
from tests.client.flavours import connected

AB, ABC = "a,b", "a,b,c"


def listed(**cells: Service) -> str:
    return ";".join(f"{name}={service.url}" for name, service in cells.items())


def job_of(cell: str, names: str = AB, prefix: str = "job") -> str:
    """The name of a job that begins in a cell."""
    cells = CellList(dict.fromkeys(names.split(","), ("http://x",)))
    return next(job for number in range(1000) if cells.chosen(job := f"{prefix}-{number}") == cell)


def epoch_of(url: str, job: str) -> int:
    """The epoch of a job in one deployment, 0 if it is not there."""
    with milepost.Client(url) as client:
        return client.store(job).current_epoch().epoch


def led(client: Any, job: str) -> int:
    """Lead a job for a moment, beginning it if need be; return its epoch."""
    with client.of_job(job, begin=True) as one, one.session(holder="me") as session:
        store = session.store(job)
        epoch: int = store.campaign().epoch
        store.resign()
        return epoch


def test_each_job_begins_in_the_cell_of_its_name_and_is_found_there(cells: dict[str, Service], flavour: str) -> None:
    with connected(flavour, listed(**cells), timeout=20.0) as client:
        for name in cells:
            job = job_of(name, prefix=f"begins-{flavour}")
            with pytest.raises(NotExist):
                client.job_info(job)
            assert led(client, job) == 1
            assert client.job_info(job).epoch.epoch == 1
            assert {each: epoch_of(service.url, job) for each, service in cells.items()} == {
                **dict.fromkeys(cells, 0),
                name: 1,
            }
            assert led(client, job) == 2


def test_a_read_begins_nothing(cells: dict[str, Service]) -> None:
    with milepost.Client(listed(**cells)) as client:
        for name, service in cells.items():
            job = job_of(name, prefix="read")
            assert client.store(job).exists("h") is None
            client.of_job(job)
            with pytest.raises(NotExist):
                client.stop_job(job)
            with milepost.Client(service.url) as one:
                assert job not in [each.store for each in one.stores()]


def test_a_write_to_one_cell_without_the_list_begins_nothing(cells: dict[str, Service]) -> None:
    with milepost.Client(cells["a"].url) as client, client.session(holder="me") as session:
        store = session.store(job_of("a", prefix="alone"))
        with pytest.raises(CellsDiffer, match="addresses of all cells, a, b") as refused:
            store.campaign()
        assert refused.value.extras == {"cell": "a", "cells": ["a", "b"]}
        with pytest.raises(CellsDiffer):
            store.add_and_lock("h", b"state")


def test_a_client_with_the_address_of_its_cell_alone_goes_on_with_its_job(cells: dict[str, Service]) -> None:
    job = job_of("a", prefix="there")
    with milepost.Client(listed(**cells)) as client:
        led(client, job)
    with milepost.Client(cells["a"].url) as client:
        assert led(client, job) == 2


def test_what_is_about_one_cell_is_asked_of_its_client(cells: dict[str, Service], flavour: str) -> None:
    with connected(flavour, listed(**cells)) as client:
        for call in (client.status, client.step_down):
            with pytest.raises(InvalidRequest, match="several cells, a, b"):
                call()
    with milepost.Client(listed(**cells)) as client:
        for name, service in cells.items():
            assert client.by_cell()[name].status().leader == service.url
    with milepost.Client(cells["a"].url) as client:
        assert client.by_cell() == {"": client}
        assert client.of_job("any") is client


def test_lists_and_sessions_are_those_of_all_cells(cells: dict[str, Service], flavour: str) -> None:
    with connected(flavour, listed(**cells), timeout=20.0) as client:
        jobs = {job_of(name, prefix=f"list-{flavour}") for name in cells}
        for job in jobs:
            led(client, job)
        assert jobs <= {each.job for each in client.jobs()}
        assert jobs <= {each.store for each in client.stores()}
        assert client.whoami().admin
        with milepost.Client(cells["b"].url) as other, other.session(holder="me") as session:
            assert session.id in [each.session for each in client.sessions()]
            assert client.session_info(session.id).holder == "me"
            client.end_session(session.id)
        with pytest.raises(SessionUnknown):
            client.session_info("nosuch")


def test_lists_that_differ_begin_no_job_and_find_those_that_are_there(cells: dict[str, Service]) -> None:
    there, new = job_of("b", prefix="known"), job_of("a", prefix="unknown")
    with milepost.Client(listed(**cells)) as client:
        led(client, there)
    for other in (f"b={cells['b'].url}", f"{listed(**cells)};c={cells['b'].url}"):
        with milepost.Client(other, timeout=60.0) as client:
            assert client.job_info(there).epoch.epoch == 1
            with pytest.raises(CellsDiffer):
                client.of_job(new, begin=True)
    assert [epoch_of(service.url, new) for service in cells.values()] == [0, 0]


def test_addresses_that_are_swapped_lead_nowhere(cells: dict[str, Service]) -> None:
    with milepost.Client(listed(a=cells["b"], b=cells["a"])) as client:
        for name in cells:
            with pytest.raises(CellsDiffer, match=r"addresses of the cell '[ab]' lead to the cell '[ab]'"):
                client.of_job(job_of(name, prefix="swapped"), begin=True)


def test_the_addresses_of_another_deployment_are_no_cell(cells: dict[str, Service], service: Service) -> None:
    with milepost.Client(listed(a=cells["a"], b=service)) as client, pytest.raises(CellsDiffer, match="no cell"):
        client.of_job(job_of("b", prefix="foreign"), begin=True)


@pytest.mark.later
def test_a_frozen_cell_is_waited_for_and_hides_no_job_of_another(tmp_path: Path) -> None:
    """A cell that does not answer may have the job; a job that another one has goes on."""
    with cell(tmp_path / "a", "a", AB) as a, cell(tmp_path / "b", "b", AB) as b:
        of_a, of_b, new = job_of("a"), job_of("b"), job_of("a", prefix="new")
        with milepost.Client(listed(a=a, b=b)) as client:
            led(client, of_a)
            led(client, of_b)
        b.process.send_signal(signal.SIGSTOP)
        try:
            with milepost.Client(listed(a=a, b=b), timeout=10.0) as client:
                assert client.job_info(of_a).epoch.epoch == 1
                with pytest.raises(DeadlineExceeded, match="'b' does not answer, and may have the job"):
                    client.of_job(new, begin=True, timeout=10.0)
                with pytest.raises(DeadlineExceeded):
                    client.of_job(of_b, begin=True, timeout=10.0)
        finally:
            b.process.send_signal(signal.SIGCONT)
        assert epoch_of(a.url, new) == epoch_of(a.url, of_b) == 0
        with milepost.Client(listed(a=a, b=b), timeout=60.0) as client:
            assert led(client, of_b) == 2
            assert led(client, new) == 1


@pytest.mark.later
def test_a_cell_more_takes_new_jobs_once_all_know_of_it(tmp_path: Path) -> None:
    """The list grows cell by cell. Until the last one has the new list, no client begins a job that the two lists
    place differently, and every job that is there is found.
    """
    moved = next(
        job for number in range(1000) if (job := job_of("b", AB, f"m{number}")) == job_of("c", ABC, f"m{number}")
    )
    old = job_of("b", AB)
    ports = {name: Port() for name in ("a", "b", "c")}
    yesterday, today = (
        ";".join(f"{name}=http://{ports[name].address}" for name in names.split(",")) for names in (AB, ABC)
    )
    with (
        cell(tmp_path / "a", "a", AB, ports["a"]),
        cell(tmp_path / "b", "b", AB, ports["b"]),
        milepost.Client(yesterday, timeout=60.0) as client,
    ):
        led(client, old)
    with (
        cell(tmp_path / "a", "a", ABC, ports["a"]),
        cell(tmp_path / "b", "b", AB, ports["b"]),
        cell(tmp_path / "c", "c", ABC, ports["c"]),
    ):
        for addresses in (yesterday, today):
            with milepost.Client(addresses, timeout=60.0) as client:
                assert client.job_info(old).epoch.epoch == 1
                with pytest.raises(CellsDiffer):
                    client.of_job(moved, begin=True)
    with (
        cell(tmp_path / "a", "a", ABC, ports["a"]),
        cell(tmp_path / "b", "b", ABC, ports["b"]),
        cell(tmp_path / "c", "c", ABC, ports["c"]),
    ):
        with milepost.Client(today, timeout=60.0) as client:
            assert led(client, moved) == 1
            assert led(client, old) == 2
        with milepost.Client(yesterday) as client, pytest.raises(CellsDiffer, match="a, b, c"):
            client.of_job(moved, begin=True)


def test_a_list_in_a_file_is_read_again(cells: dict[str, Service], tmp_path: Path) -> None:
    place, job = tmp_path / "cells", job_of("b", prefix="file")
    place.write_text(f"# swapped\na={cells['b'].url}\nb={cells['a'].url}\n")
    with milepost.Client(f"@{place}", timeout=60.0) as client:
        for text in (place.read_text(), "neither a list\nnor addresses"):
            place.write_text(text)
            with pytest.raises(CellsDiffer):
                client.of_job(job, begin=True)
        place.write_text(f"a={cells['a'].url}\nb={cells['b'].url}\n")
        assert led(client, job) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=http://x;a=http://y", "twice"),
        ("a=http://x;http://y", "NAME=ADDRESS"),
        ("a=", "no address"),
        ("A=http://x", "name of a cell"),
        ("a=ftp://x", "ftp://x"),
        ("a=http://user:secret@x", "credentials"),
        ("@/nosuch/cells", "No such file"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        milepost.Client(text)
    assert "secret" not in str(refused.value)


def blocks_of_the_page() -> list[str]:
    """The blocks of docs/cells.md."""
    text = (Path(__file__).parents[2] / "docs" / "cells.md").read_text(encoding="utf-8")
    return re.findall(r"```\w+\n(.*?)```", text, re.DOTALL)


def test_the_page_has_flags_and_a_list_that_are_taken(cells: dict[str, Service], capsys: Any, monkeypatch: Any) -> None:
    """docs/cells.md: the servers of the page are elsewhere, so its program gets those of this test."""
    server, environment, program, _, _ = blocks_of_the_page()
    assert "--cell a --cells a,b" in server.replace("\\\n", " ")
    text = environment.split('"')[1]
    assert CellList.parse(text).names == ("a", "b")
    monkeypatch.setenv("MILEPOST_URL", listed(**cells))
    with milepost.Client() as client:
        led(client, "flights")
        place = client.of_job("flights").addresses
    exec(program, {"milepost": milepost})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == str(place)
    assert [line.split()[0] for line in said[1:]] == ["a", "b"]
    assert sum("'flights'" in line for line in said) == 1


@pytest.mark.parametrize("call", ["op=CREATE", "op=MKDIRS", "op=DELETE"])
def test_hadoop_begins_no_store_in_a_cell(cells: dict[str, Service], call: str) -> None:
    job = job_of("a", prefix="hadoop")
    headers = {"Content-Type": "application/octet-stream"}
    method = "DELETE" if "DELETE" in call else "PUT"
    answer = httpx.request(
        method, f"{cells['a'].url}/webhdfs/v1/jobs/{job}/d?{call}", content=b"x", headers=headers, timeout=60.0
    )
    if method == "DELETE":
        assert answer.json() == {"boolean": False}  # nothing was there, so nothing begins
    else:
        assert (answer.status_code, answer.json()["RemoteException"]["exception"]) == (403, "IOException")
        assert "a write begins none" in answer.json()["RemoteException"]["message"]
    assert epoch_of(cells["a"].url, job) == 0
    with milepost.Client(cells["a"].url) as client:
        assert job not in [each.store for each in client.stores()]
