"""``milepost events`` over the real service."""

from __future__ import annotations

import json

import milepost
from tests.client.cli.conftest import Run, Said, ended, started
from tests.client.conftest import Service


def test_what_exists_is_shown_as_events(said: Said, session: milepost.Session, name: str) -> None:
    version = session.store(name).get("latest").version
    lines = [line.split("  ") for line in said("events", name).splitlines()]
    assert [line[:2] for line in lines] == [["-", "added"], ["-", "epoch-granted"]]
    assert f"version={version}" in lines[0][2]
    first = json.loads(said("events", name, "--json").splitlines()[0])
    assert first.items() >= {"id": None, "type": "added", "name": "latest", "version": version}.items()


def test_a_place_goes_with_following(run: Run, name: str) -> None:
    refused = run("events", name, "--after", "7")
    assert refused.returncode == 2
    assert b"--follow" in refused.stderr


def test_what_happens_is_followed_a_line_an_event(
    service: Service, session: milepost.Session, blocking: milepost.Client, name: str
) -> None:
    store = session.store(name)
    revision = next(each.revision for each in blocking.stores() if each.store == name)
    process = started(service.url, "events", name, "--follow", "--json", "--after", str(revision))
    assert process.stdout is not None
    try:
        store.under(1).replace("latest", store.get("latest").version, b"newer")
        shown = json.loads(process.stdout.readline())
        assert (shown["type"], shown["version"]) == ("replaced", store.get("latest").version)
        assert process.poll() is None
        process.terminate()
    finally:
        ended(process)
