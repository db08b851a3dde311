"""``milepost step-down`` over two real replicas, and over one alone."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.ports import Port
from testbed.server import ServerProcess
from tests.client.cli.conftest import Run, Said


def test_another_leads_then_and_the_command_says_who(said: Said, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with ServerProcess(tmp_path) as first:
        first.start()
        with ServerProcess(tmp_path / "second", pointers=first.pointers, blobs=first.blobs) as second:
            second.start(until="/readyz")
            for urls in (first.url, f"{second.url},{first.url}", second.url):  # by way of a follower, too
                before, after = _leader(said, first, second)
                told = json.loads(said("step-down", "--url", urls, "--json"))
                assert (told["before"], told["leader"]) == (before, after)
                assert told["seconds"] > 0


def test_one_alone_leads_again(said: Said, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as alone:
        alone.start()
        assert f"{alone.url} leads again, since no other replica took the lead in time" in said(
            "step-down", "--url", alone.url
        )


def test_where_nobody_answers_the_command_says_so(run: Run) -> None:
    assert run("step-down", "--url", "http://127.0.0.1:1", "--timeout", "0.3").returncode == 3


def test_where_nobody_leads_the_line_has_an_errors_name(run: Run, tmp_path: Path) -> None:
    """Its ZooKeeper does not answer, so the one replica does not stand either."""
    nobody = Port()
    with ServerProcess(tmp_path, pointers=f"zookeeper://{nobody.address}/milepost") as server:
        ended = run("step-down", "--url", server.start(until="/livez").url)
    assert ended.returncode == 3
    assert ended.stderr.decode() == "Unavailable: no-leader: nobody leads, so nobody can step down\n"


def _leader(said: Said, *servers: ServerProcess) -> tuple[str, str]:
    """Who leads, and who does not."""
    (leader,) = {json.loads(said("status", "--url", server.url, "--json"))[0]["leader"] for server in servers}
    (other,) = {server.url for server in servers} - {leader}
    return leader, other
