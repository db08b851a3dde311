"""A leader that is only paused keeps its file lock: nobody leads in its place, and it goes on where it was."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import httpx

from milepost.wire import API, Header
from testbed.server import ServerProcess

HANDLES = f"{API}/stores/flights/handles"
LOOKS = 20
ACTING = {Header.SESSION: "a"}


def add(server: ServerProcess, name: str) -> httpx.Response:
    """The answer to an add."""
    return httpx.post(f"{server.url}{HANDLES}/{name}", headers=ACTING, content=b"state", trust_env=False, timeout=60)


def test_nobody_leads_in_place_of_a_paused_leader_until_it_dies(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path) as leader,
        ServerProcess(tmp_path, pointers=leader.pointers, blobs=leader.blobs) as follower,
    ):
        leader.start()
        session = {"session": "a", "ttl": 600}
        httpx.post(f"{leader.url}{API}/sessions", json=session, trust_env=False, timeout=60.0).raise_for_status()
        follower.start(until="/readyz")
        leader.signal(signal.SIGSTOP)
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(add(leader, "meanwhile")))
        asking.start()
        try:
            for _ in range(LOOKS):
                assert follower.status_of("/leader") == 503
                sent_on = add(follower, "elsewhere")
                assert (sent_on.status_code, sent_on.headers["location"]) == (307, f"{leader.url}{HANDLES}/elsewhere")
                time.sleep(0.05)
        finally:
            leader.signal(signal.SIGCONT)
            asking.join(60)
        assert [answer.status_code for answer in answers] == [201]
        assert add(leader, "after").status_code == 201
        assert "leading journal" not in follower.logged()
        assert leader.logged().count("leading journal") == 1

        leader.signal(signal.SIGSTOP)
        leader.kill()
        follower.wait_for("/leader")
        listing = httpx.get(f"{follower.url}{HANDLES}", trust_env=False, timeout=60.0).json()
        assert [record["name"] for record in listing["handles"]] == ["after", "meanwhile"]
        assert add(follower, "later").status_code == 201
