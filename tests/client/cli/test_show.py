"""``milepost status``, ``ls``, ``show`` and ``epochs`` over the real service."""

from __future__ import annotations

import json

import pytest

import milepost
from tests.client.cli.conftest import Run, Said
from tests.client.conftest import Service


def test_status_has_a_line_for_each_address_that_answers(run: Run, said: Said, service: Service) -> None:
    assert said("status").splitlines()[0].split()[:3] == ["REPLICA", "ROLE", "LEADER"]
    ended = run("--timeout", "0.5", "status", "--json", "--url", f"http://127.0.0.1:1,{service.url}")
    assert ended.returncode == 0
    assert [(found["role"], found["leader"]) for found in json.loads(ended.stdout)] == [("leader", service.url)]
    assert ended.stderr.decode().startswith("ConnectionFailed: 127.0.0.1:1 ")


def test_status_fails_if_none_answers(run: Run) -> None:
    ended = run("--url", "http://127.0.0.1:1,http://127.0.0.1:2", "--timeout", "0.2", "status")
    assert (ended.returncode, ended.stdout) == (3, b"")
    assert [line.split(":")[0] for line in ended.stderr.decode().splitlines()] == ["ConnectionFailed"] * 2


def test_stores_and_handles_are_listed(said: Said, session: milepost.Session, name: str) -> None:
    (line,) = (line.split() for line in said("ls").splitlines() if name in line)
    assert (line[1], *line[3:]) == ("1", "1", "cli-test", "-", "0")
    store = session.store(name).under(1)
    for batch in (0, 1):
        store.files.write(f"checkpoint/commits/{batch}", b"v1")
    (line,) = (line.split() for line in said("ls").splitlines() if name in line)
    assert line[-2:] == ["1", "0"]
    (listed,) = (each for each in json.loads(said("ls", "--json")) if each["store"] == name)
    assert listed["snapshot"].items() >= {"directory": "checkpoint", "batch": 1}.items()
    assert (listed["batch"], listed["session"]) == (1, session.id)
    handles = said("ls", name).splitlines()
    assert len(handles) == 2
    assert "batch=7" in handles[1]
    assert session.id in handles[1]


@pytest.mark.parametrize("command", [("ls",), ("files", "snapshots"), ("files", "verify")])
def test_a_store_that_is_not_there_is_told_from_an_empty_one(
    run: Run, session: milepost.Session, name: str, command: tuple[str, ...]
) -> None:
    unknown = run(*command, f"{name}-mistyped")
    assert unknown.returncode == 1
    assert f"NotExist: there is no store '{name}-mistyped'".encode() in unknown.stderr
    session.store(f"{name}-empty").campaign()
    assert run(*command, f"{name}-empty").returncode == 0


def test_a_record_is_shown(said: Said, session: milepost.Session, name: str) -> None:
    assert session.id in said("show", name, "latest")
    handle = session.store(name).get("latest")
    shown = json.loads(said("show", name, "latest", "--json"))
    assert (shown["version"], shown["sha256"], shown["size"]) == (handle.version, handle.sha256, 7)


def test_who_leads_is_shown_of_one_store_and_of_all(
    said: Said, session: milepost.Session, blocking: milepost.Client, name: str
) -> None:
    with blocking.session() as other:
        other.store(f"{name}-b").add_and_lock("latest", b"state")
    led = {"store": name, "epoch": 1, "holder": "cli-test", "session": session.id}
    (line,) = json.loads(said("epochs", name, "--json"))
    assert line.items() >= led.items()
    every = {line["store"]: line for line in json.loads(said("epochs", "--json"))}
    assert every[name] == line
    assert (every[f"{name}-b"]["epoch"], every[f"{name}-b"]["holder"]) == (0, None)
    assert said("epochs", "never-seen").splitlines()[1].split() == ["never-seen", "0", "-", "-", "-"]
