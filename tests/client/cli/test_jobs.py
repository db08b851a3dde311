"""``milepost jobs`` over the real service."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import milepost
from tests.client.cli.conftest import Run, Said
from tests.client.conftest import Service, eventually

PAGE = Path(__file__).parents[3] / "docs" / "jobs.md"


def line_of(said: Said, name: str) -> Any:
    (line,) = (each for each in json.loads(said("jobs", "ls", "--json")) if each["job"] == name)
    return line


def test_a_job_is_listed_and_shown_with_its_driver_and_its_standbys(
    said: Said, run: Run, service: Service, blocking: milepost.Client
) -> None:
    name = "jobs-of-one-driver"
    with blocking.session(holder="driver-1") as driver, milepost.Client(service.url) as other:
        store = driver.store(name).under(driver.store(name).campaign().epoch)
        for batch in range(2):
            store.files.write(f"checkpoint/commits/{batch}", b"v1")
        store.files.make_savepoint("before-upgrade")
        with other.session(holder="driver-2", process=milepost.Process("spark-2", 4711)) as standby:
            waiting = threading.Thread(target=standby.store(name).campaign, kwargs={"wait": 60.0})
            waiting.start()
            eventually(lambda: blocking.job_info(name).standby_count == 1)
            line = line_of(said, name)
            assert (line["state"], line["epoch"], line["holder"]) == ("led", 1, "driver-1")
            assert (line["standbys"], line["batch"], line["damaged"]) == (1, 1, 0)
            assert line["age"] >= 0
            shown = json.loads(said("jobs", "show", name, "--json"))
            assert [each.split(" since ")[0] for each in shown["standbys"]] == ["driver-2 (host spark-2, pid 4711)"]
            assert shown["host"] is None
            assert (shown["savepoints"], shown["directory"]) == (["before-upgrade"], "checkpoint")
            driver.store(name).resign()
            waiting.join(60)
            assert said("jobs", "check", name, "--max-age", "1h") == f"{name} is led by driver-2: batch 1\n"
            for command in re.findall(r"^milepost (jobs .+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
                told = said(*command.replace("flights", name).split())
                assert ("epoch-granted" if "history" in command else name) in told
    newest = said("jobs", "history", name, "--limit", "3").splitlines()
    assert newest[0].split() == ["TIME", "WHAT", "EPOCH", "BATCH", "WHO", "DETAIL"]
    assert len(newest) == 4
    whole = json.loads(said("jobs", "history", name, "--json"))
    assert [
        (each["kind"], each["epoch"], each["how"]) for each in whole if each["epoch"] and each["batch"] is None
    ] == [
        ("epoch-ended", 2, "session-ended"),
        ("epoch-granted", 2, None),
        ("epoch-ended", 1, "resigned"),
        ("epoch-granted", 1, None),
    ]
    assert whole[1]["process"] == {"host": "spark-2", "pid": 4711, "application": None, "ui": None}
    assert "host spark-2, pid 4711" in newest[2]
    assert said("jobs", "ls").splitlines()[0].split()[:3] == ["JOB", "STATE", "EPOCH"]
    assert line_of(said, name)["state"] == "lost"
    late = run("jobs", "check", name, "--max-age", "0.001s")
    assert late.returncode == 1
    lost, old = late.stderr.decode().splitlines()
    assert lost == f"no driver leads {name}: it is lost, and 0 stand by"
    assert old.startswith(f"the last batch of {name}, 1, is ")


def test_a_store_without_epoch_and_files_is_no_job(said: Said, run: Run, session: milepost.Session, name: str) -> None:
    session.store(f"{name}-plain").add_and_lock("a", b"state")
    assert f"{name}-plain" not in said("jobs", "ls")
    session.store(name).campaign()
    fresh = run("jobs", "check", name, "--max-age", "1d")
    assert (fresh.returncode, fresh.stderr.decode()) == (1, f"{name} has no batch whose time is known\n")
    assert run("jobs", "check", name).returncode == 0
    assert run("jobs", "check", name, "--max-age", "soon").returncode == 2
    unknown = run("jobs", "show", f"{name}-never")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith(b"NotExist: ")
