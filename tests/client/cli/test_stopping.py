"""``milepost jobs stop``, ``hand-over`` and ``start`` over the real service, as docs/jobs.md has them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import milepost
from milepost.standby import Standby
from milepost.types import Wish
from tests.client.cli.conftest import Run, Said
from tests.client.cli.test_jobs import commands
from tests.client.conftest import Service, eventually


class Driver:
    """A driver in a thread: it stands by, leads, and resigns once a person asks for that."""

    def __init__(self, client: milepost.Client, holder: str, job: str) -> None:
        self.wishes: list[Wish] = []
        self.leads = threading.Event()
        self._asked = threading.Event()
        self._standby = Standby(client, holder, job, 60.0, 60.0, on_wish=self._heed)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _heed(self, wish: Wish) -> None:
        self.wishes.append(wish)
        self._asked.set()

    def _run(self) -> None:
        with self._standby:
            leadership = self._standby.take_over(lambda leadership: leadership)
            self.leads.set()
            leadership.store.files.write(f"checkpoint/commits/{leadership.store.epoch}", b"v1")
            self._asked.wait(60)

    def end(self) -> None:
        """End the driver, whatever it does."""
        self._asked.set()
        self._standby.cancel()
        self._thread.join(60)


@contextmanager
def driver(client: milepost.Client, holder: str, job: str) -> Iterator[Driver]:
    begun = Driver(client, holder, job)
    try:
        yield begun
    finally:
        begun.end()


def test_a_job_is_handed_over_stopped_with_a_savepoint_and_started(
    said: Said, run: Run, service: Service, blocking: milepost.Client
) -> None:
    name = "jobs-that-people-stop"
    (hand_over,), (stop,), (start,) = (
        [each for each in commands(name) if each[1] == command] for command in ("hand-over", "stop", "start")
    )
    with milepost.Client(service.url) as other, driver(blocking, "driver-1", name) as first:
        assert first.leads.wait(60)
        eventually(lambda: blocking.job_info(name).batch is not None)
        alone = run("jobs", "hand-over", name)
        assert (alone.returncode, alone.stderr.decode()) == (
            1,
            f"NotExist: no driver stands by for '{name}', so that none would lead; with force, the next that asks "
            "does\n",
        )
        with driver(other, "driver-2", name) as second:
            eventually(lambda: blocking.job_info(name).standby_count == 1)
            planned = said("jobs", "hand-over", name, "--dry-run")
            assert planned.startswith(
                "driver-1, which leads jobs-that-people-stop under epoch 1, would finish its batch and resign, and "
                "driver-2 lead\n  source: "
            )
            absent = run("jobs", "hand-over", name, "--to", "driver-9")
            assert (absent.returncode, absent.stderr.decode()) == (
                1,
                f"NotExist: no driver called 'driver-9' stands by for '{name}'; those that do: 'driver-2'\n",
            )
            planned = said("jobs", "hand-over", name, "--to", "driver-2", "--dry-run")
            assert "and driver-2 lead\n" in planned
            assert said(*hand_over).startswith(f"driver-2 leads {name} under epoch 2")
            (wish,) = first.wishes
            assert (wish.kind, wish.epoch, wish.reason) == ("hand-over", 1, "drain of spark-1")
            with driver(other, "driver-3", name) as third:
                eventually(lambda: blocking.job_info(name).standby_count == 1)
                assert "would be made" in said(*stop, "--dry-run")
                assert blocking.job_info(name).state == "led"
                stopped = json.loads(said(*stop, "--json"))
                assert (stopped["job_state"], stopped["batch"], stopped["savepoint"]) == (
                    "stopped",
                    2,
                    "before-release-7",
                )
                eventually(lambda: blocking.job_info(name).standby_count == 1)
                assert second.wishes[0].savepoint == "before-release-7"
                again = json.loads(said(*stop, "--json"))
                assert {**again, "standbys": 0} == {**stopped, "standbys": 0}
                shown = json.loads(said("jobs", "show", name, "--json"))
                assert (shown["state"], shown["savepoints"], shown["epoch"]) == ("stopped", ["before-release-7"], 2)
                assert shown["wish"].startswith("stop by ")
                check = run("jobs", "check", name)
                assert check.stderr.decode() == f"no driver leads {name}: it is stopped, and 1 stand by\n"
                assert run("jobs", "check", "jobs-that-people-sto*").returncode == 0
                assert not third.leads.is_set()
                assert "driver-3 would lead" in said("jobs", "start", name, "--dry-run")
                assert said(*start).startswith(f"{name} is started; driver-3 leads")
                eventually(lambda: (found := blocking.job_info(name).batch) is not None and found.batch == 3)
                back = ("jobs", "restore", name, "before-release-7", "--stop")
                assert f"\n  driver: would be stopped, until milepost jobs start {name}" in said(*back, "--dry-run")
                assert third.wishes == []
                assert said(*back).startswith(f"{name} is back at batch 2; ")
                assert (third.wishes[0].kind, blocking.job_info(name).state) == ("stop", "stopped")
    history = [each for each in json.loads(said("jobs", "history", name, "--json")) if each["batch"] is None]
    assert [(each["kind"], each["epoch"], each["how"]) for each in reversed(history)][1:8] == [
        ("hand-over-requested", 1, None),
        ("epoch-ended", 1, "handed-over"),
        ("epoch-granted", 2, None),
        ("stop-requested", 2, None),
        ("epoch-ended", 2, "stopped"),
        ("started", None, None),
        ("epoch-granted", 3, None),
    ]
    assert "with savepoint before-release-7" in said("jobs", "history", name)


def test_a_driver_that_does_not_heed_wishes_is_named_and_its_session_can_be_ended(
    said: Said, run: Run, blocking: milepost.Client
) -> None:
    name = "jobs-of-an-old-driver"
    with blocking.session(holder="old-driver") as old:
        old.store(name).under(old.store(name).campaign().epoch).files.write("checkpoint/commits/0", b"v1")
        late = run("jobs", "stop", name, "--savepoint", "kept", "--within", "0.2")
        assert late.returncode == 1
        assert f"old-driver still leads {name} under epoch 1, after 0.2 s" in late.stderr.decode()
        assert f"milepost sessions end {old.id}" in late.stderr.decode()
        assert blocking.job_info(name).state == "stopping"
        said("sessions", "end", old.id)
        assert blocking.job_info(name).state == "stopped"
        with pytest.raises(milepost.EpochHeld, match="was stopped by"), blocking.session() as other:
            other.store(name).campaign(0)
        assert "kept is its state" in said("jobs", "stop", name, "--savepoint", "kept")
        assert [each.name for each in blocking.job_info(name).kept.savepoints] == ["kept"]
    assert run("sessions", "end", old.id).returncode == 1
    assert run("jobs", "hand-over", name).stderr.decode() == (
        f"no driver leads {name}, so there is nothing to hand over: it is stopped\n"
    )
    assert "no driver stands by" in said("jobs", "start", name)
    assert f"{name} is not stopped" in said("jobs", "start", name, "--dry-run")
    assert said("jobs", "start", name).startswith(f"{name} was not stopped, and nothing changes: it is ")


def test_who_asks_for_an_act_on_a_stopped_job_may_have_its_epoch(said: Said, blocking: milepost.Client) -> None:
    name = "jobs-that-are-restored"
    with blocking.session() as session:
        store = session.store(name)
        store.under(store.campaign().epoch).files.write("checkpoint/commits/0", b"v1")
        store.resign()
    said("jobs", "stop", name)
    said("put", name, "latest", "--campaign", "/dev/null")
    assert blocking.job_info(name).state == "stopped"
