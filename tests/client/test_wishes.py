"""Wishes over a service that dies, from many hands at once, and with tokens that may not."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import milepost
from milepost.standby import Standby
from milepost.types import Wish
from testbed.ports import Port
from tests.client.conftest import eventually, serving


def led(client: milepost.Client, name: str, heed: Callable[[Wish], None]) -> Standby:
    """A driver that leads, has committed a batch, and calls ``heed`` with a wish."""
    standby = Standby(client, "driver", name, 60.0, 60.0, on_wish=heed)
    leadership = standby.take_over(lambda leadership: leadership)
    leadership.store.files.write("checkpoint/commits/0", b"v1")
    return standby


def test_a_wish_survives_the_death_of_the_leader_before_the_driver_learns_of_it(tmp_path: Path, name: str) -> None:
    asked = threading.Event()
    port = Port()
    with milepost.Client(f"http://127.0.0.1:{port.number}", timeout=60.0) as client:
        with serving(tmp_path, port=port) as service:
            standby = led(client, name, lambda _: asked.set())
            assert client.stop_job(name, savepoint="before", who="anna").state == "stopping"
            service.process.kill()
        with serving(tmp_path, port=port):
            assert asked.wait(60)
            wish = client.job_info(name).wish
            assert wish is not None
            assert (wish.kind, wish.epoch, wish.who) == ("stop", 1, "anna")
            standby.resign()
            assert client.wait_for_end(name, 1, timeout=60.0).session is None
        with serving(tmp_path, port=port):
            stopped = client.job_info(name)
            assert (stopped.state, [each.name for each in stopped.kept.savepoints]) == ("stopped", ["before"])
            with client.session() as session, pytest.raises(milepost.EpochHeld, match="anna"):
                session.store(name).campaign(0)


@pytest.mark.later
def test_many_hands_at_once_leave_a_job_that_says_what_it_is(blocking: milepost.Client, name: str) -> None:
    """Whatever the order was in which the service took them: no epoch is granted while the last word is a stop."""
    asked = threading.Event()
    standby = led(blocking, name, lambda _: asked.set())
    chance = random.Random(7)

    def one(number: int) -> None:
        which = chance.choice(["stop", "start", "hand over", "savepoint"])
        with suppress(milepost.AlreadyExists):
            if which == "stop":
                blocking.stop_job(name, who=f"hand {number}")
            elif which == "start":
                blocking.start_job(name, who=f"hand {number}")
            elif which == "hand over":
                blocking.hand_over_job(name, epoch=1, force=True, who=f"hand {number}")
            else:
                blocking.stop_job(name, savepoint=f"savepoint-{number % 3}", who=f"hand {number}")

    with ThreadPoolExecutor(8) as hands:
        list(hands.map(one, range(40)))
        eventually(asked.is_set)
        resigned = hands.submit(standby.resign)
        list(hands.map(one, range(40)))
        resigned.result(60)
    last = next(each for each in blocking.job_history(name) if each.kind in ("stop-requested", "started"))
    now = blocking.job_info(name)
    assert (now.state == "stopped") == (last.kind == "stop-requested")
    with blocking.session() as session:
        if now.state == "stopped":
            with pytest.raises(milepost.EpochHeld):
                session.store(name).campaign(0)
            blocking.start_job(name)
        assert session.store(name).campaign(0).epoch == 2


def test_only_a_writer_of_the_store_may_ask_and_is_named(tmp_path: Path, name: str) -> None:
    tokens = {"driver": "a1" * 32, "operators": "b2" * 32, "reader": "c3" * 32, "stranger": "d4" * 32}
    rights = {
        "driver": f"writer={name}",
        "operators": f"writer={name}",
        "reader": "reader=*",
        "stranger": "writer=other",
    }
    file = tmp_path / "tokens"
    file.write_text("".join(f"{who} {token} {rights[who]}\n" for who, token in tokens.items()))
    file.chmod(0o600)
    with serving(tmp_path, "--token-file", str(file), ready="/livez") as service:
        clients = {who: milepost.Client(service.url, token=token) for who, token in tokens.items()}
        heeded: list[Wish] = []
        standby = led(clients["driver"], name, heeded.append)
        for who in ("reader", "stranger"):
            for act in (clients[who].stop_job, clients[who].hand_over_job, clients[who].start_job):
                with pytest.raises(milepost.AccessDenied):
                    act(name)
            with pytest.raises(milepost.AccessDenied):
                clients[who].end_session(clients["driver"].job_info(name).epoch.session or "")
        clients["operators"].stop_job(name, who="anna")
        eventually(lambda: bool(heeded))
        assert heeded[0].person == "anna as operators"
        standby.resign()
        ended = next(each for each in clients["driver"].job_history(name) if each.kind == "stop-requested")
        assert (ended.holder, ended.by) == ("anna", "operators")
        for client in clients.values():
            client.close()
