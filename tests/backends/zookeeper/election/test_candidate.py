"""What is certain of a session, in seconds of a clock that is made up: its timeout is 4.0."""

from __future__ import annotations

import pytest

from milepost_backends.zookeeper.election.candidate import CERTAIN, EXCHANGES, SessionEvidence

TIMEOUT = 4.0
LONG_AGO = -100.0


def evidence(*exchanges: tuple[float, float]) -> SessionEvidence:
    made = SessionEvidence()
    for sent, answered in exchanges:
        made.note(sent, answered)
    return made


def test_a_session_that_was_just_made_lasts_from_then_on() -> None:
    assert evidence().until(10.2, TIMEOUT, connected=9.0) == 13.0


def test_no_lease_is_longer_than_what_is_certain() -> None:
    assert evidence().until(10.0, TIMEOUT, connected=10.0) == 10.0 + CERTAIN * TIMEOUT


def test_an_exchange_counts_once_another_is_sent_a_quarter_later() -> None:
    """The server that answered it has reported it by then, and what it reported came before the other one."""
    once = evidence((10.0, 10.1))
    assert once.until(11.0, TIMEOUT, connected=8.0) == 12.0
    assert once.until(11.2, TIMEOUT, connected=8.0) == 14.0


@pytest.mark.parametrize("pause", [1.5, 2.5, 3.5])
def test_after_a_pause_what_was_before_it_counts(pause: float) -> None:
    """The first exchange after it may be known to one server alone, which may stop."""
    paused = evidence((8.0, 8.1), (9.0, 9.1), (10.0, 10.1))
    assert paused.until(10.0 + pause, TIMEOUT, LONG_AGO) == min(14.0, 10.0 + pause + CERTAIN * TIMEOUT)
    paused.note(10.0 + pause, 10.1 + pause)
    assert paused.until(10.5 + pause, TIMEOUT, LONG_AGO) == 14.0


def test_of_a_session_that_nothing_was_asked_under_nothing_is_certain() -> None:
    assert evidence().until(10.0, TIMEOUT, LONG_AGO) < 10.0


def test_who_asks_all_the_time_has_a_lease_all_the_time() -> None:
    steady = SessionEvidence()
    lease = 0.0
    for number in range(1000):
        sent = number * TIMEOUT / EXCHANGES
        if number > EXCHANGES:
            assert lease - sent >= TIMEOUT * 3 / 8
        lease = steady.until(sent, TIMEOUT, LONG_AGO if number else sent)
        steady.note(sent, sent + 0.05)
