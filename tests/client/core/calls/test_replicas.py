"""Addresses: which are taken, and that they are asked each once, in order."""

from __future__ import annotations

import pytest

from milepost.core.calls.replicas import Replicas


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:7070",
        "ftp://a",
        "http://",
        "http://user:pw@a",
        "http://a?x=1",
        "http://a#x",
        "file:///etc/passwd",
        "http://a..b",
        "http://" + "a" * 64,
        "http://a:0",
        "http://a:99999",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|URL"):
        Replicas(address)


def test_there_must_be_one() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Replicas([])


def test_trailing_slashes_and_repetitions_go() -> None:
    assert Replicas(["http://a/", "http://a", "http://b/x/"]).addresses == ("http://a", "http://b/x")


def test_a_round_asks_each_once_the_leader_first() -> None:
    replicas = Replicas(["http://a", "http://b", "http://c"])
    replicas.leader = "http://b"
    asked = replicas.round()
    targets = [asked.target]
    while asked.next():
        targets.append(asked.target)
    assert targets == ["http://b", "http://a", "http://c"]
    assert asked.target == "http://a"


def test_all_addresses_are_told_that_of_the_leader_first() -> None:
    replicas = Replicas(["http://a", "http://b", "http://c"])
    assert replicas.leader_first() == ["http://a", "http://b", "http://c"]
    replicas.answered("http://c")
    assert replicas.leader_first() == ["http://c", "http://a", "http://b"]
    replicas.answered("http://10.0.0.1:7070")  # a redirect led there
    assert replicas.leader_first() == ["http://a", "http://b", "http://c"]


def test_a_suspect_is_passed_over_for_its_time_and_not_followed() -> None:
    now = 5.0
    replicas = Replicas(["http://a", "http://b", "http://c"], lambda: now)
    replicas.leader = "http://a"
    replicas.suspect("http://a", 2.0)
    assert replicas.leader is None
    asked = replicas.round()
    assert asked.target == "http://b"
    assert "did not answer" in str(asked.follow("http://a/v1/x", "/v1/x"))
    assert [asked.next(), asked.target] == [True, "http://c"]
    assert [asked.next(), asked.target] == [False, "http://b"]
    now = 7.0
    assert asked.follow("http://a/v1/x", "/v1/x") is None
    assert replicas.round().target == "http://a"


def test_of_suspects_the_one_that_is_nearest_its_end_is_asked() -> None:
    replicas = Replicas(["http://a", "http://b"], lambda: 5.0)
    replicas.suspect("http://a", 2.0)
    replicas.suspect("http://b", 1.0)
    assert replicas.round().target == "http://b"


def test_a_leader_beside_the_configured_addresses_is_asked_too() -> None:
    replicas = Replicas("http://service")
    asked = replicas.round()
    assert asked.follow("http://pod-2:7070/v1/x", "/v1/x") is None
    assert asked.target == "http://pod-2:7070"
    asked.answered()
    assert replicas.round().target == "http://pod-2:7070"
