"""Acts that the service performs for clients without the SDK: a process of the server runs `milepost.served_acts`."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import milepost
from milepost.job_record import JOB, RECORD_FILE, decode
from tests.client.conftest import Service, serving
from tests.client.published_job import LAST, PATIENT, WANTED, begin, state_of

TOKENS = {"owner": "writer=flights*", "cloner": "writer=copy", "looker": "reader=*"}
PROGRAM = b"milepost.served_acts"
ACTS = (sys.executable, "-m", PROGRAM.decode())
KILLED, MOST_KILLS = 2, 60
"""How many acts are cut off by a kill, and the most kills until then: some come before or after the act."""


class Asking:
    """Asks the service for acts on the job of one test, which has published batches 0 to 3."""

    def __init__(self, service: Service, job: str, token: str = "") -> None:
        self.url, self.job = service.url, job
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __call__(self, act: str, job: str = "", key: str = "", attempt: int = 1, **body: Any) -> httpx.Response:
        headers = {**self.headers, **({"Idempotency-Key": key, "Milepost-Attempt": str(attempt)} if key else {})}
        return httpx.post(f"{self.url}/v1/jobs/{job or self.job}/{act}", json=body, headers=headers, timeout=PATIENT)

    def planned(self, act: str, job: str = "", **body: Any) -> dict[str, Any]:
        """The answer to a dry run."""
        answer = self(act, job, dry_run=True, **body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert found["done"] is False
        return found

    def done(self, act: str, job: str = "", **body: Any) -> dict[str, Any]:
        """The answer to an act."""
        answer = self(act, job, **body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert found["done"] is True
        return found


def problem(answer: httpx.Response, code: str) -> dict[str, Any]:
    """The problem with which an act was refused, after which nothing was changed."""
    found: dict[str, Any] = answer.json()
    assert (found["type"], found["outcome"]) == (f"urn:milepost:{code}", "not_applied"), answer.text
    return found


@pytest.fixture
def blocking(service: Service) -> Iterator[milepost.Client]:
    with milepost.Client(service.url, timeout=PATIENT) as client:
        yield client


@pytest.fixture
def ask(service: Service, blocking: milepost.Client, store_name: str) -> Asking:
    begin(blocking, store_name)
    return Asking(service, store_name)


@pytest.fixture
def store_name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def kinds(client: milepost.Client, job: str) -> Counter[str]:
    return Counter(entry.kind for entry in client.job_history(job))


def test_a_dry_run_says_what_a_restore_would_do_and_changes_nothing(ask: Asking, blocking: milepost.Client) -> None:
    before = kinds(blocking, ask.job)
    plan = ask.planned("restore", batch=WANTED)
    assert (plan["job"], plan["epoch"], plan["holder"], plan["undo"]) == (ask.job, 1, None, None)
    assert (plan["batch"], plan["published"], plan["published_before"]) == (WANTED, WANTED, LAST)
    assert set(plan["becomes"]) == {"source", "state", "output", "sink"}
    assert f"the next batch is {WANTED + 1}" in plan["becomes"]["source"]
    assert ask.planned("restore", snapshot=str(plan["revision"])) == plan
    assert state_of(blocking, ask.job) == LAST
    assert kinds(blocking, ask.job) == before
    assert blocking.job_info(ask.job).epoch.epoch == 1


def test_a_restore_is_done_once_to_the_job_that_was_looked_at(ask: Asking, blocking: milepost.Client) -> None:
    problem(ask("restore", batch=WANTED), "invalid-request")
    done = ask.done("restore", batch=WANTED, epoch=1, who="anna", key="first")
    assert state_of(blocking, ask.job) == WANTED
    again = ask("restore", batch=WANTED, epoch=1, who="anna", key="first")
    assert (again.json(), again.headers["Milepost-Replayed"]) == (done, "true")
    problem(ask("restore", batch=0, epoch=1, who="anna", key="first"), "idempotency-mismatch")
    refused = problem(ask("restore", batch=WANTED, epoch=1), "fenced")
    assert refused["current"] == 2
    later = ask("restore", batch=WANTED, epoch=1, key="of-a-leader-that-is-gone", attempt=2)
    assert (later.status_code, later.json()["outcome"]) == (409, "unknown"), "an earlier try may have been done"
    longest = "x" * 176
    undone = ask.done("restore", snapshot=done["undo"], epoch=2, who=longest)
    assert undone["batch"] == LAST
    assert "also of batches that count no more after this restore" in undone["becomes"]["sink"]
    assert "gets none of it again" in ask.planned("restore", snapshot=undone["snapshot"])["becomes"]["sink"]
    assert state_of(blocking, ask.job) == LAST
    made = {entry.epoch: entry.holder for entry in blocking.job_history(ask.job) if entry.kind == "rolled-back"}
    assert made == {2: "anna (milepost jobs restore)", 3: f"{longest} (milepost jobs restore)"}
    info = blocking.job_info(ask.job)
    assert (info.state, info.epoch.epoch, info.epoch.session) == ("resigned", 3, None)


def test_an_act_is_refused_while_a_driver_leads_and_the_driver_goes_on(ask: Asking, blocking: milepost.Client) -> None:
    with blocking.session(holder="driver-2", ttl=600) as session:
        store = session.store(ask.job)
        epoch = store.campaign(PATIENT).epoch
        assert ask.planned("restore", batch=WANTED)["holder"] == "driver-2"
        refused = problem(ask("restore", batch=WANTED, epoch=epoch), "held")
        assert refused["holder"] == "driver-2"
        problem(ask("drop", epoch=epoch), "held")
        store.files.write("checkpoint/offsets/4", b"v1")
        store.resign()
    assert state_of(blocking, ask.job) == LAST


def test_what_cannot_be_restored_is_refused(ask: Asking) -> None:
    problem(ask("restore", job="no-such-job", batch=1, dry_run=True), "not-exist")
    problem(ask("restore", batch=77, dry_run=True), "not-exist")
    problem(ask("restore", as_of="2020-01-01T00:00:00Z", dry_run=True), "not-exist")
    for body in ({}, {"batch": 1, "snapshot": "x"}, {"as_of": "2020-01-01T00:00:00"}, {"batch": -1}, {"what": 1}):
        problem(ask("restore", dry_run=True, **body), "invalid-request")
    for who in ("a\nb", "x" * 191):
        problem(ask("restore", batch=1, dry_run=True, who=who), "invalid-request")
    assert ask.planned("restore", as_of="2100-01-01T00:00:00+02:00")["batch"] == LAST


def test_a_record_that_is_too_large_is_refused_and_not_read_again_and_again(
    ask: Asking, blocking: milepost.Client
) -> None:
    with blocking.session(holder="driver-2", ttl=600) as session:
        store = session.store(ask.job)
        store.campaign(PATIENT)
        store.files.write(RECORD_FILE, bytes(33 * 1024 * 1024))
        for log in ("offsets", "commits"):
            store.files.write(f"checkpoint/{log}/{LAST + 1}", b"v1")
        store.resign()
    refused = problem(ask("restore", batch=LAST + 1, dry_run=True), "not-supported")
    assert "an act takes 33554432 at most" in refused["detail"]


@pytest.mark.parametrize(
    ("path", "act", "wanted"),
    [
        (RECORD_FILE, {"act": "restore", "batch": LAST + 1}, "corrupt"),
        ("checkpoint/metadata", {"act": "clone", "new_query_id": True}, "unsafe"),
        (f"checkpoint/offsets/{LAST + 1}", {"act": "rescale", "partitions": 2}, "unsafe"),
    ],
    ids=["record", "metadata", "offsets"],
)
def test_a_file_of_the_job_that_no_program_can_read_ends_no_process(
    service: Service, blocking: milepost.Client, path: str, act: dict[str, Any], wanted: str
) -> None:
    name = f"nested-{act['act']}"
    begin(blocking, name)
    with blocking.session(holder="driver-2", ttl=600) as session:
        store = session.store(name)
        store.campaign(PATIENT)
        for file in (f"checkpoint/offsets/{LAST + 1}", f"checkpoint/commits/{LAST + 1}"):
            store.files.write(path, b"v1\n" + b"[" * 100_000 if "offsets" in path else b"[" * 100_000)
            if file != path:
                store.files.write(file, b"v1")
        store.resign()
    ask = Asking(service, name)
    job: dict[str, Any] = {"job": "nested-copy", "source": name} if act["act"] == "clone" else {}
    problem(ask(**act, **job, dry_run=True), wanted)


def test_a_clone_begins_a_job_beside_the_original(ask: Asking, blocking: milepost.Client) -> None:
    copy = f"{ask.job}-fix"
    problem(ask("clone", job=copy, source="no-such-job", dry_run=True), "not-exist")
    plan = ask.planned("clone", job=copy, source=ask.job)
    assert (plan["job"], plan["source"], plan["batch"], plan["files"]) == (copy, ask.job, LAST, None)
    assert set(plan["becomes"]) == {"query", "input", "state", "output", "sink"}
    with pytest.raises(milepost.NotExist):
        blocking.job_info(copy)
    done = ask.done("clone", job=copy, source=ask.job, batch=WANTED)
    assert done["files"] > 0
    cloned = blocking.store(copy)
    assert decode(cloned.read(JOB)).published == WANTED
    assert cloned.files.read("checkpoint/state/0/0/state") == b"%d" % WANTED
    assert state_of(blocking, ask.job) == LAST
    problem(ask("clone", job=copy, source=ask.job), "not-empty")


def test_a_clone_in_a_cell_is_refused_also_by_its_dry_run(cells: dict[str, Service], store_name: str) -> None:
    addresses = ";".join(f"{name}={service.url}" for name, service in cells.items())
    with milepost.Client(addresses, timeout=PATIENT) as client:
        there = client.of_job(store_name, begin=True)
        begin(there, store_name)
        ask = Asking(cells[there.cell], store_name)
        for dry_run in (True, False):
            refused = problem(ask("clone", job=f"{store_name}-2", source=store_name, dry_run=dry_run), "cells-differ")
            assert refused["cell"] == there.cell
        assert ask.done("restore", batch=WANTED, epoch=1)["epoch"] == 1


def test_a_dropped_job_is_gone_and_a_late_act_on_it_is_refused(ask: Asking, blocking: milepost.Client) -> None:
    plan = ask.planned("drop")
    assert (plan["batch"], plan["handles"], plan["outputs"]) == (LAST, 1, [])
    assert blocking.job_info(ask.job).state == "resigned"
    assert ask.done("drop", epoch=plan["epoch"])["handles"] == 1
    assert blocking.job_info(ask.job).state == "dropped"
    assert not blocking.store(ask.job).exists("job")
    assert ask.done("drop", epoch=plan["epoch"])["handles"] == 0, "it is dropped already"
    assert blocking.job_info(ask.job).epoch.epoch == plan["epoch"] + 1
    problem(ask("restore", batch=WANTED, epoch=plan["epoch"]), "not-exist")


@pytest.mark.later
def test_acts_are_done_where_only_high_epochs_are_granted(tmp_path: Path) -> None:
    with serving(tmp_path) as service, milepost.Client(service.url, timeout=PATIENT) as client:
        begin(client, "flights")
    with serving(tmp_path, "--epochs-above", "100") as service:
        ask = Asking(service, "flights")
        ask.done("clone", job="copy", source="flights")
        ask.done("restore", batch=WANTED, epoch=ask.planned("restore", batch=WANTED)["epoch"])
        problem(ask("restore", batch=WANTED, epoch=1), "fenced")
        with milepost.Client(service.url, timeout=PATIENT) as client:
            assert state_of(client, "flights") == WANTED
            assert client.job_info("flights").epoch.epoch == client.job_info("copy").epoch.epoch == 101


def test_a_rescale_is_planned_and_done_where_spark_is(ask: Asking, blocking: milepost.Client) -> None:
    refused = problem(ask("rescale", partitions=7, dry_run=True), "unsafe")
    assert "does not say how many partitions" in refused["detail"]
    assert "runs no Spark" in problem(ask("rescale", partitions=7), "not-supported")["detail"]
    with blocking.session(holder="driver-2", ttl=600) as session:
        store = session.store(ask.job)
        store.campaign(PATIENT)
        logged = b'v1\n{"conf": {"spark.sql.shuffle.partitions": "4"}}\n{}'
        for log, content in (("offsets", logged), ("commits", b"v1")):
            store.files.write(f"checkpoint/{log}/{LAST + 1}", content)
        store.resign()
    plan = ask.planned("rescale", partitions=7)
    assert (plan["partitions_before"], plan["partitions"], plan["batch"]) == (4, 7, LAST + 2)
    problem(ask("rescale", partitions=0, dry_run=True), "invalid-request")


def test_an_act_has_the_rights_of_its_caller(tmp_path: Path) -> None:
    secrets = {name: name * 8 for name in (*TOKENS, "admin")}
    roles = {**TOKENS, "admin": "admin"}
    (tmp_path / "tokens").write_text("".join(f"{name} {secrets[name]} {roles[name]}\n" for name in roles))
    with serving(tmp_path, "--token-file", str(tmp_path / "tokens")) as service:
        with milepost.Client(service.url, token=secrets["admin"], timeout=PATIENT) as client:
            begin(client, "flights")
            owner, cloner, looker = (Asking(service, "flights", secrets[name]) for name in TOKENS)
            problem(looker("restore", batch=WANTED, dry_run=True), "forbidden")
            problem(cloner("clone", job="copy", source="flights", dry_run=True), "forbidden")
            problem(owner("clone", job="copy", source="flights", dry_run=True), "forbidden")
            assert state_of(client, "flights") == LAST
            owner.done("restore", batch=WANTED, epoch=1)
            (entry,) = (entry for entry in client.job_history("flights") if entry.kind == "rolled-back")
            assert (entry.by, entry.holder) == ("owner", "REST (milepost jobs restore)")
            (worker,) = workers(service)
            assert not any(
                secret.encode() in Path(f"/proc/{worker}/environ").read_bytes() for secret in secrets.values()
            )
        assert not any(secret in (tmp_path / "log").read_text() for secret in secrets.values())


def workers(service: Service) -> list[int]:
    """The processes of a server that perform acts."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == service.process.pid and PROGRAM in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.later
def test_an_act_whose_process_is_killed_has_an_unknown_outcome_and_is_whole_or_not_done(tmp_path: Path) -> None:
    ends: Counter[tuple[int, int]] = Counter()
    with serving(tmp_path) as service, milepost.Client(service.url, timeout=PATIENT) as client:
        begin(client, "warm")
        ask = Asking(service, "warm")
        began = time.monotonic()
        ask.done("restore", batch=WANTED, epoch=1)
        takes = time.monotonic() - began
        for number in range(MOST_KILLS):
            if ends[503, LAST] + ends[503, WANTED] == KILLED:
                break
            job = f"job-{number}"
            begin(client, job)
            ask = Asking(service, job)
            assert ask.planned("restore", batch=WANTED)["epoch"] == 1  # so a process is there
            answers: list[httpx.Response] = []
            acting = threading.Thread(target=lambda to=answers, by=ask: to.append(by("restore", batch=WANTED, epoch=1)))
            acting.start()
            time.sleep(takes * (number % 5) / 5)
            for worker in workers(service):
                os.kill(worker, signal.SIGKILL)
            acting.join(PATIENT)
            (answer,) = answers
            at = state_of(client, job)
            ends[answer.status_code, at] += 1
            if answer.status_code == 200:
                assert at == WANTED
            else:
                assert answer.json()["outcome"] == "unknown"
                assert at in (WANTED, LAST)
            with client.session(holder="next", ttl=600) as session:
                store = session.store(job)
                epoch = store.campaign(PATIENT).epoch  # the session of a killed act ends by itself
                store.resign()
            ask.done("restore", batch=0, epoch=epoch)
            assert state_of(client, job) == 0
    assert ends[503, LAST] + ends[503, WANTED] == KILLED, ends


def test_a_process_that_hears_nothing_any_more_ends() -> None:
    with subprocess.Popen(ACTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(struct.pack(">II", 1, 0) + b"{")
        process.stdin.flush()
        try:
            process.wait(PATIENT)  # its input is not at its end
        finally:
            process.kill()
