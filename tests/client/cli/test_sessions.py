"""``milepost sessions``: who lives, and holds what."""

from __future__ import annotations

import json
import re

import pytest

import milepost
from tests.client.cli.conftest import STATE, Run, Said


def test_all_sessions_are_listed_or_those_that_hold_something_of_a_store(
    said: Said, session: milepost.Session, blocking: milepost.Client, name: str
) -> None:
    with blocking.session(holder="leads") as leads, blocking.session(holder="idle") as idle:
        leads.store(f"{name}-b").campaign()
        table = said("sessions", "--store", name).splitlines()
        assert table[0].split() == ["SESSION", "HOLDER", "TTL", "EXPIRES_IN", "LOCKS"]
        assert [line.split()[:2] for line in table[1:]] == [[session.id, "cli-test"]]
        listed = {line["session"]: line for line in json.loads(said("sessions", "--json"))}
    assert (listed[session.id]["holder"], listed[session.id]["locks"] > 0) == ("cli-test", True)
    assert listed[leads.id]["epochs"] == {f"{name}-b": 1}
    assert (listed[idle.id]["holder"], listed[idle.id]["locks"], listed[idle.id]["epochs"]) == ("idle", 0, {})


@pytest.fixture
def there(said: Said, name: str) -> str:
    """A store with the handle ``latest``, which nobody holds."""
    said("put", name, "latest", stdin=STATE)
    return name


def test_a_lock_outlives_its_command_until_it_is_released(run: Run, said: Said, there: str) -> None:
    locked = json.loads(said("lock", there, "latest", "--ttl", "300", "--json"))
    session = locked["session"]
    assert locked["locks"] == [session]
    assert run("rm", there, "latest").returncode == 1
    shown = json.loads(said("sessions", "show", session, "--json"))
    assert (shown["ttl"], shown["locks"]) == (300.0, [f"{there}/latest"])
    assert re.fullmatch(r".+@.+:\d+ \(milepost lock\)", shown["holder"])
    release = ("release", there, "latest", "--session", session)
    assert said(*release) == f"the lock of session {session} on latest is released\n"
    assert said(*release) == f"session {session} held no lock on latest by itself, and holds none now\n"
    again = json.loads(said("sessions", "show", session, "--json"))
    assert (again["holder"], again["ttl"], again["locks"]) == (shown["holder"], 300.0, [])
    assert json.loads(said("lock", there, "latest", "--session", session, "--json"))["session"] == session
    said("rm", there, "latest", "--session", session)
    assert json.loads(said("sessions", "show", session, "--json"))["session"] == session


def test_no_session_is_begun_or_left_where_nothing_is_locked(run: Run, said: Said, there: str) -> None:
    for command in (
        ("lock", there, "latest", "--session", f"of-{there}"),
        ("release", there, "latest", "--session", f"of-{there}"),
        ("put", there, "latest", "--session", f"of-{there}"),
        ("sessions", "show", f"of-{there}"),
    ):
        ended = run(*command)
        assert (ended.returncode, ended.stderr.split(b":")[0]) == (1, b"SessionUnknown")
    assert run("lock", there, "nothing").stderr.startswith(b"NotExist: ")
    assert json.loads(said("sessions", "--store", there, "--json")) == []
