"""The options that all commands share, in front of a command and behind it."""

from __future__ import annotations

import json

import pytest
import yaml

import milepost
from tests.client.cli.conftest import Run, Said
from tests.client.conftest import Service

NOBODY = "http://127.0.0.1:1"


def test_the_address_stands_in_front_or_behind_and_behind_it_counts_more(
    said: Said, service: Service, session: milepost.Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_URL", NOBODY)
    for arguments in (
        ("--url", service.url, "status"),
        ("status", "--url", service.url),
        ("-u", NOBODY, "status", "-u", service.url),
        ("-u", NOBODY, "sessions", "-u", service.url, "show", session.id),
        ("files", "--url", service.url, "snapshots", name),
    ):
        assert said(*arguments)


def test_what_is_given_in_front_holds_behind_too(run: Run, name: str) -> None:
    ended = run("--url", NOBODY, "--timeout", "0.2", "ls", name, "-o", "json")
    assert ended.returncode == 3
    assert NOBODY.removeprefix("http://") in ended.stderr.decode()


def test_each_form_has_the_same_in_it(said: Said, session: milepost.Session, name: str) -> None:
    table = said("ls", name).splitlines()
    assert table[0].split()[:3] == ["NAME", "VERSION", "SIZE"]
    assert table[1].split()[0] == "latest"
    (handle,) = json.loads(said("ls", name, "-o", "json"))
    assert handle["locks"] == [session.id]
    assert handle["labels"] == {"batch": "7"}
    assert yaml.safe_load(said("-o", "yaml", "ls", name)) == [handle]
    for arguments in (("--json", "ls", name), ("ls", name, "--json"), ("-o", "yaml", "ls", name, "--output", "json")):
        assert json.loads(said(*arguments)) == [handle]


@pytest.mark.parametrize(
    "arguments", [("-o", "yaml", "--json", "ls"), ("ls", "--json", "-o", "table"), ("ls", "-o", "x")]
)
def test_two_forms_or_none_that_is_known_are_refused(run: Run, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout) == (2, b"")


@pytest.mark.parametrize("url", ["localhost:7070", ","])
def test_a_wrong_address_is_an_error_of_usage(run: Run, url: str) -> None:
    ended = run("ls", "--url", url)
    assert ended.returncode == 2
    assert b"--url" in ended.stderr
