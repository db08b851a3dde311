"""``milepost jobs`` over the real service."""

from __future__ import annotations

import json
import re
import shlex
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
        with other.session(holder="driver-2") as standby:
            waiting = threading.Thread(target=standby.store(name).campaign, kwargs={"wait": 60.0})
            waiting.start()
            eventually(lambda: blocking.job_info(name).standby_count == 1)
            line = line_of(said, name)
            assert (line["state"], line["epoch"], line["holder"]) == ("led", 1, "driver-1")
            assert (line["standbys"], line["batch"], line["damaged"]) == (1, 1, 0)
            assert line["age"] >= 0
            shown = json.loads(said("jobs", "show", name, "--json"))
            assert [each.split(" since ")[0] for each in shown["standbys"]] == ["driver-2"]
            assert (shown["savepoints"], shown["directory"]) == (["before-upgrade"], "checkpoint")
            driver.store(name).resign()
            waiting.join(60)
            (checked,) = json.loads(said("jobs", "check", name, "--max-age", "1h", "--json"))
            assert (checked["holder"], checked["batch"], checked["complaints"]) == ("driver-2", 1, [])
            for command in re.findall(r"^milepost (jobs [^>\n]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
                ended = run(*shlex.split(command.replace("flights", name)))
                assert name in ended.stdout.decode()
                assert ended.returncode == 0 or "--all" in command, "other tests leave lost jobs behind"
    assert said("jobs", "ls").splitlines()[0].split()[:3] == ["JOB", "STATE", "EPOCH"]
    assert line_of(said, name)["state"] == "lost"
    late = run("jobs", "check", name, "--max-age", "0.001s")
    assert late.returncode == 1
    lost, old = late.stderr.decode().splitlines()
    assert lost == f"no driver leads {name}: it is lost, and 0 stand by"
    assert old.startswith(f"the last batch of {name}, 1, is ")
    (told,) = json.loads(run("jobs", "check", name, "--max-age", "0.001s", "--json").stdout)
    assert told["complaints"][0] == lost


def test_many_jobs_are_checked_in_one_call(run: Run, session: milepost.Session, name: str) -> None:
    """Whoever names a job wants it led; of others, those that were stopped in order are passed over."""

    def checked(*arguments: str) -> tuple[int, list[str], list[str]]:
        ended = run("jobs", "check", *arguments, "--json")
        return (
            ended.returncode,
            [each["job"] for each in json.loads(ended.stdout)],
            ended.stderr.decode().splitlines(),
        )

    led, stopped, absent = f"{name}-led", f"{name}-stopped", f"{name}-absent"
    for each in (led, stopped):
        session.store(each).campaign()
    session.store(stopped).resign()
    complaint = f"no driver leads {stopped}: it is resigned, and 0 stand by"
    assert checked(f"{name}-*") == (0, [led], [])
    assert checked(led, stopped, f"{name}-*") == (1, [led, stopped], [complaint])
    assert checked(led, absent) == (1, [led, absent], [f"there is no job {absent}"])
    assert checked(f"{absent}-?*") == (0, [], [f"warning: no job matches {absent}-?*"])
    assert led in run("jobs", "check", "--all").stdout.decode()
    assert run("jobs", "check").returncode == run("jobs", "check", led, "--all").returncode == 2


def test_a_store_without_epoch_and_files_is_no_job(said: Said, run: Run, session: milepost.Session, name: str) -> None:
    session.store(f"{name}-plain").add_and_lock("a", b"state")
    assert f"{name}-plain" not in said("jobs", "ls")
    session.store(name).campaign()
    fresh = run("jobs", "check", name, "--max-age", "1d")
    assert (fresh.returncode, fresh.stderr.decode()) == (
        1,
        f"{name} has no batch yet, or its files are not in this service\n",
    )
    assert run("jobs", "check", name).returncode == 0
    assert run("jobs", "check", name, "--max-age", "soon").returncode == 2
    unknown = run("jobs", "show", f"{name}-never")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith(b"NotExist: ")
