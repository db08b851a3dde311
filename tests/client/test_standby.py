"""Standing by through outages, which are made up: the real service cannot be away for one call."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import milepost
from milepost.errors import (
    AccessDenied,
    ConnectionFailed,
    Fenced,
    MilepostError,
    OutcomeUnknown,
    SessionLost,
    Unavailable,
)
from milepost.session import Session
from milepost.standby import Leadership, Standby
from milepost.store import StateHandleStore
from milepost.types import Epoch
from milepost.wire import Code
from testbed.ports import Port
from tests.client.conftest import Service, eventually, serving


def away(monkeypatch: pytest.MonkeyPatch, outage: MilepostError) -> None:
    """Let the first campaign, which asks who leads, meet ``outage``."""
    campaign = StateHandleStore.campaign

    def first(_store: StateHandleStore, _wait: float | None = 30.0, **_: object) -> Epoch:
        monkeypatch.setattr(StateHandleStore, "campaign", campaign)
        raise outage

    monkeypatch.setattr(StateHandleStore, "campaign", first)


@pytest.mark.parametrize(
    "outage", [Unavailable(Code.NO_LEADER), ConnectionFailed("away"), OutcomeUnknown(Code.OUTCOME_UNKNOWN)]
)
@pytest.mark.parametrize("wait", [None, 60.0])
def test_an_outage_is_waited_out(
    blocking: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch, outage: MilepostError, wait: float | None
) -> None:
    away(monkeypatch, outage)
    standby = Standby(blocking, "standby", name, 15.0, wait)
    assert standby.lead().store.epoch == 1
    standby.leave()


def test_an_outage_that_outlasts_the_wait_is_reported(
    blocking: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch, Unavailable(Code.NO_LEADER))
    standby = Standby(blocking, "standby", name, 15.0, 0.0)
    with pytest.raises(Unavailable):
        standby.lead()
    standby.leave()


@pytest.mark.parametrize("wait", [None, 60.0])
def test_a_service_that_is_away_at_the_start_is_waited_for(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, wait: float | None
) -> None:
    """It is away for longer than one call may take."""
    port = Port()
    with milepost.Client(f"http://{port.address}", timeout=1.0) as client:
        served = threading.Event()

        def serve() -> None:
            eventually(lambda: "gives no session yet" in caplog.text)
            time.sleep(2.0)
            with serving(tmp_path, port=port):
                assert served.wait(60.0)

        server = threading.Thread(target=serve)
        server.start()
        try:
            standby = Standby(client, "standby", name, 15.0, wait)
            assert standby.lead().store.epoch == 1
            told = [record.getMessage() for record in caplog.records if record.name == "milepost.jobs"]
            standby.resign()  # on a busy machine it may take longer than a call may, and says so
        finally:
            served.set()
            server.join()
    assert told[0].startswith(f"standing by for store {name}, the service gives no session yet: ")
    assert told[-1].startswith(f"leading store {name} now under epoch 1")
    assert sum("gives no session yet" in line for line in told) == 1


def test_a_service_that_stays_away_is_waited_for_no_longer_than_that(name: str) -> None:
    port = Port()
    with milepost.Client(f"http://{port.address}", timeout=0.2) as client:
        began = time.monotonic()
        with pytest.raises(ConnectionFailed):
            Standby(client, "standby", name, 15.0, 2.0).lead()
        assert 2.0 <= time.monotonic() - began < 6.0


def test_a_token_that_is_refused_is_no_outage(tmp_path: Path, name: str) -> None:
    (tmp_path / "tokens").write_text(f"somebody {'a1' * 32}")
    (tmp_path / "tokens").chmod(0o600)
    with (
        serving(tmp_path, "--token-file", str(tmp_path / "tokens")) as service,
        milepost.Client(service.url, token="wrong") as client,
        pytest.raises(AccessDenied),
    ):
        Standby(client, "standby", name, 15.0, None).lead()


def test_an_epoch_that_was_granted_to_a_session_given_up_is_not_led_by(
    blocking: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The service grants it to a poll that waited through an outage, and by then the session counts as lost here."""
    poll = StateHandleStore.campaign
    standby = Standby(blocking, "standby", name, 15.0, 60.0)

    def late(store: StateHandleStore, wait: float | None = 30.0, **_: object) -> Epoch:
        monkeypatch.setattr(StateHandleStore, "campaign", poll)
        granted = poll(store, wait)
        assert standby._session is not None
        standby._session._lease.end("not renewed within 15 s")
        return granted

    monkeypatch.setattr(StateHandleStore, "campaign", late)
    leadership = standby.lead()
    assert leadership.store.epoch == 2
    assert not leadership.session.lost
    assert "standing by with another" in caplog.text
    standby.leave()


def test_a_take_over_that_another_driver_prevented_is_made_again(blocking: milepost.Client, name: str) -> None:
    epochs: list[int | None] = []

    def take(leadership: Leadership) -> Leadership:
        epochs.append(leadership.store.epoch)
        if len(epochs) == 1:
            raise Fenced(Code.FENCED)
        return leadership

    with Standby(blocking, "standby", name, 15.0, 60.0) as standby:
        leadership = standby.take_over(take)
        assert not leadership.session.lost
    assert epochs == [1, 2]
    assert leadership.session.lost
    assert blocking.session("the next").store(name).campaign(0.0).epoch == 3


def test_what_is_wrong_with_a_job_ends_its_take_over_and_the_epoch(blocking: milepost.Client, name: str) -> None:
    def take(_leadership: Leadership) -> None:
        raise KeyError("not a job")

    with pytest.raises(KeyError), Standby(blocking, "standby", name, 15.0, 60.0) as standby:
        standby.take_over(take)
    assert blocking.session("the next").store(name).campaign(0.0).epoch == 2


def test_the_loss_of_a_session_that_was_left_is_reported_no_more(blocking: milepost.Client, name: str) -> None:
    """Its keeper may come to report it only when another session leads."""
    lost: list[str] = []
    standby = Standby(blocking, "standby", name, 15.0, 60.0, lambda: lost.append(name))
    first = standby.lead().session
    standby.leave()
    second = standby.lead().session
    standby._lost(first, "late")
    assert lost == []
    standby._lost(second, "in time")
    assert lost == [name]
    standby.resign()


def test_who_stands_by_says_so_where_a_program_without_logging_shows_it(
    blocking: milepost.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    leader = blocking.session("the leader").store(name)
    leader.campaign()

    def leave() -> None:
        eventually(lambda: "standing by" in caplog.text)
        leader.resign()

    leaving = threading.Thread(target=leave)
    leaving.start()
    prepared = []
    standby = Standby(blocking, "standby", name, 15.0, 60.0, prepare=lambda _: prepared.append(name))
    assert standby.lead().store.epoch == 2
    leaving.join()
    assert prepared == [name]
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert messages[0] == f"standing by: the leader leads {name}"
    assert messages[1].startswith(f"leading store {name} now under epoch 2")
    standby.leave()


LEADS = """
import sys
import milepost
from milepost.standby import Standby
with milepost.Client(sys.argv[1]) as client:
    standby = Standby(client, "first", sys.argv[2], 15.0, 60.0)
    standby.lead()
    standby.resign()
"""


def test_who_comes_first_says_so_as_a_standby_does(
    service: Service, blocking: milepost.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A program without logging shows it, too; in one with logging it is no warning."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LEADS, service.url, name],
        capture_output=True,
        text=True,
        timeout=60.0,
        check=True,
    )
    assert ran.stderr == f"leading store {name} now under epoch 1\n"
    caplog.set_level(logging.INFO, "milepost.jobs")
    standby = Standby(blocking, "second", name, 15.0, 60.0)
    standby.lead()
    standby.leave()
    told = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "milepost.jobs"]
    assert told == [(logging.INFO, f"leading store {name} now under epoch 2")]


def test_who_cannot_lead_any_more_while_it_gets_a_session_leads_no_more(
    blocking: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The withdrawal finds no session yet. It is made to come at that moment."""
    another = Standby._another_session

    def late(standby: Standby) -> Session:
        session = another(standby)
        standby.cancel()
        return session

    monkeypatch.setattr(Standby, "_another_session", late)
    standby = Standby(blocking, "standby", name, 15.0, None)
    with pytest.raises(SessionLost):
        standby.lead()
    assert blocking.session("the next").store(name).campaign(0.0).epoch == 1


def test_who_cannot_lead_any_more_stands_by_no_more(blocking: milepost.Client, name: str) -> None:
    blocking.session("the leader").store(name).campaign()
    standby = Standby(blocking, "standby", name, 15.0, None)
    threading.Timer(0.5, standby.cancel).start()
    with pytest.raises(SessionLost):
        standby.lead()
