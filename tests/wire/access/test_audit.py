"""Each administrative act, and each attempt at one, is a line of the audit log; a secret never is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.wire.access.conftest import TOKENS, As, lines
from tests.wire.support.api import Api, connect, unique


def noted(server: ServerProcess, request_id: str) -> str:
    """The one line of the audit log for a request, without its time."""
    server.wait_for_log(f" {request_id} ")  # that of the access log comes after it
    (line,) = [line for line in server.logged().splitlines() if f"request={request_id}" in line]
    match = re.fullmatch(r"\S+ \S+ INFO milepost\.audit (.*)", line)
    assert match is not None
    return match[1].replace(f"request={request_id}", "request=ID")


def test_administrative_acts_and_attempts_at_them(guarded: ServerProcess, a: Api, b: Api, as_client: As) -> None:
    lead = a.under(a.granted())
    stores = f"/v1/stores/{a.store}"
    ops = Api.on(as_client("ops"), a.store).under(1)
    acts = [
        (lead, "DELETE", "/handles", None, f"act=clear on={stores}/handles by=of-a outcome=done request=ID"),
        (
            lead,
            "POST",
            "/tree/rollback",
            {"revision": 7},
            f"act=rollback on={stores}/tree/rollback by=of-a outcome=not_applied:not-exist request=ID"
            ' detail="to revision 7"',
        ),
        (
            a.other().under(1),
            "POST",
            "/tree/rollback",
            {"revision": 7, "replace": {"name": "job", "version": "v", "state": ""}},
            f"act=rollback on={stores}/tree/rollback by=of-a outcome=not_applied:fenced request=ID"
            ' detail="to revision 7, and replaces job"',
        ),
        (
            lead,
            "POST",
            "/tree/clone",
            {"source": b.store, "snapshot": "p"},
            f"act=clone on={stores}/tree/clone by=of-a outcome=not_applied:forbidden request=ID"
            f' detail="from {b.store} at p"',
        ),
        (
            lead,
            "PUT",
            "/tree/savepoints/p",
            {},
            f"act=savepoint on={stores}/tree/savepoints/p by=of-a outcome=not_applied:not-exist request=ID",
        ),
        (
            lead,
            "DELETE",
            "/tree/savepoints/p",
            None,
            f"act=drop-savepoint on={stores}/tree/savepoints/p by=of-a outcome=not_applied:not-exist request=ID",
        ),
        (
            lead,
            "POST",
            "/epoch/credentials",
            None,
            f'act=issue-credential on={stores}/epoch/credentials by=of-a outcome=done request=ID detail="epoch 1"',
        ),
        (
            replace(lead, http=b.http),
            "DELETE",
            "/handles",
            None,
            f"act=clear on={stores}/handles by=of-b outcome=not_applied:forbidden request=ID",
        ),
        (ops, "DELETE", "/handles", None, f"act=clear on={stores}/handles by=ops outcome=done request=ID"),
    ]
    for api, method, path, body, expected in acts:
        request_id = unique("act")
        api.call(method, path, json=body, headers={"X-Request-Id": request_id})
        assert noted(guarded, request_id) == expected
    ends = [
        (a.http, "of-a", "not_applied:forbidden"),
        (as_client("ops"), "ops", "done"),
    ]
    for http, name, outcome in ends:
        request_id = unique("end")
        http.delete(f"/v1/sessions/{b.session}", headers={"X-Request-Id": request_id})
        assert noted(guarded, request_id) == (
            f"act=end-session on=/v1/sessions/{b.session} by={name} outcome={outcome} request=ID"
        )
    own = unique("own")
    a.http.delete(f"/v1/sessions/{a.session}", headers={"X-Request-Id": own})
    guarded.wait_for_log(f" {own} ")
    assert f"request={own}" not in guarded.logged()
    for token in TOKENS.values():
        assert token not in guarded.logged()


def test_nobody_adds_lines_or_members_of_a_line(guarded: ServerProcess, a: Api) -> None:
    request_id = 'x" outcome=done act="forged'
    lead = a.under(a.granted())
    before = guarded.logged().count("milepost.audit")
    lead.call("DELETE", "/handles", headers={"X-Request-Id": 'quoted"="'})
    lead.call(
        "POST", "/tree/clone", json={"source": a.store, "snapshot": request_id + "\n2026 INFO milepost.audit forged"}
    )
    lead.http.put("/v1/stores/%0aforged/tree/savepoints/x", headers={"Milepost-Session": str(a.session)})
    guarded.wait_for_log("nforged/tree/savepoints/x")
    found = [line for line in guarded.logged().splitlines() if "milepost.audit" in line]
    assert len(found) == before + 3
    member = r'(\w+)=("(?:[^"\\]|\\.)*"|[^ "=\\]+)'
    for line in found:
        text = line.partition(" milepost.audit ")[2]
        assert re.fullmatch(f"{member}(?: {member})*", text)
        names = [name for name, _ in re.findall(member, text)]
        assert names in (["act", "on", "by", "outcome", "request"], ["act", "on", "by", "outcome", "request", "detail"])


def test_nobody_makes_lines_without_end(guarded: ServerProcess, a: Api) -> None:
    """A stranger's attempt is noted as well, so what is noted of it is short, whatever the path."""
    with connect(guarded.url) as stranger:
        stranger.delete("/v1/stores/" + "%ff" * 15_000 + "/handles")
    body = {"source": a.store, "snapshot": "long" * 10_000}
    a.call("POST", "/tree/clone", json=body, headers={"X-Request-Id": unique("long")})
    guarded.wait_for_log(f"from {a.store} at long")
    assert max(map(len, guarded.logged().splitlines())) < 3000


@pytest.mark.parametrize("level", ["warning"])
def test_the_audit_log_is_there_at_every_level(tmp_path: Path, level: str, store: str) -> None:
    (tmp_path / "tokens").write_text("\n".join(lines()))
    with ServerProcess(tmp_path, "--token-file", str(tmp_path / "tokens"), "--log-level", level) as server:
        server.start()
        with connect(server.url) as http:
            http.headers["Authorization"] = f"Bearer {TOKENS['ops']}"
            Api.on(http, store).clear()
            server.wait_for_log("act=clear")
        assert " INFO milepost.access" not in server.logged()
