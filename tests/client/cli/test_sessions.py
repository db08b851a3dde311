"""``milepost sessions``: who lives, and holds what."""

from __future__ import annotations

import json

import milepost
from tests.client.cli.conftest import Said


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
