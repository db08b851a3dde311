"""A name is looked up once for all who wait for it, and nobody waits for longer than it may."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpcore
import pytest

from milepost.drivers.names import MOST_LOOK_UPS, PATIENCE_SECONDS, Names

Answer = Callable[[], list[Any]]


def answers(*hosts: str) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 7070)) for host in hosts]


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """The answers to the look-ups to come, the last of which is the next."""
    to_come: list[Answer] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: to_come.pop()())
    return to_come


@contextmanager
def slow(looked_up: list[Answer], names: Names, *hosts: str) -> Iterator[None]:
    """Let a look-up of ``a.test`` take as long as the block, and find ``hosts``."""
    begun, over = threading.Event(), threading.Event()

    def slowly() -> list[Any]:
        begun.set()
        assert over.wait(60.0)
        return answers(*hosts)

    looked_up.append(slowly)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(names.addresses, "a.test", 7070, None)
        assert begun.wait(60.0)
        try:
            yield
        finally:
            over.set()
        assert first.result(60.0) == list(dict.fromkeys(hosts))


def test_all_that_ask_meanwhile_wait_for_one_answer(looked_up: list[Answer]) -> None:
    names = Names(lambda: 0.0)
    with slow(looked_up, names, "10.0.0.1", "10.0.0.2", "10.0.0.1"):
        for _ in range(3):  # another look-up would fail, since no answer is to come
            with pytest.raises(httpcore.ConnectTimeout, match=r"a\.test"):
                names.addresses("a.test", 7070, 0.01)


def test_who_asks_later_does_not_wait_for_a_packet_that_is_lost(looked_up: list[Answer]) -> None:
    now = 0.0
    names = Names(lambda: now)
    with slow(looked_up, names, "10.0.0.1"):
        now += PATIENCE_SECONDS + 0.1
        looked_up.append(lambda: answers("10.0.0.2"))
        assert names.addresses("a.test", 7070, 60.0) == ["10.0.0.2"]
        looked_up.append(lambda: answers("10.0.0.3"))
        assert names.addresses("b.test", 7070, 60.0) == ["10.0.0.3"]


def test_a_name_server_that_is_silent_takes_few_threads(looked_up: list[Answer]) -> None:
    now, over = 0.0, threading.Event()
    names = Names(lambda: now)

    def silent() -> list[Any]:
        assert over.wait(60.0)
        return answers("10.0.0.1")

    looked_up += [silent] * MOST_LOOK_UPS
    for _ in range(3 * MOST_LOOK_UPS):
        with pytest.raises(httpcore.ConnectTimeout):
            names.addresses("a.test", 7070, 0.01)
        now += PATIENCE_SECONDS + 0.1
    assert looked_up == []
    over.set()
    looked_up += [lambda: answers("10.0.0.1")] * 2  # for one that comes behind the answer
    assert names.addresses("a.test", 7070, 60.0) == ["10.0.0.1"]


def test_an_answer_is_not_kept(looked_up: list[Answer]) -> None:
    def refused() -> list[Any]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    def odd() -> list[Any]:
        raise UnicodeError("label too long")

    names = Names()
    looked_up += [lambda: answers("10.0.0.2"), odd, refused, lambda: answers("10.0.0.1")]
    assert names.addresses("a.test", 7070, 60.0) == ["10.0.0.1"]
    for said in ("Temporary failure", "label too long"):
        with pytest.raises(httpcore.ConnectError, match=said):
            names.addresses("a.test", 7070, 60.0)
    assert names.addresses("a.test", 7070, 60.0) == ["10.0.0.2"]


def test_a_name_is_looked_up_also_if_no_thread_can_be_started(
    looked_up: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a limit of processes, which a test cannot set for itself alone."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    names = Names()
    looked_up += [lambda: answers("10.0.0.1")] * 2
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        assert names.addresses("a.test", 7070, 60.0) == ["10.0.0.1"]
    assert names.addresses("a.test", 7070, 60.0) == ["10.0.0.1"]


def test_an_address_keeps_its_zone(looked_up: list[Answer]) -> None:
    looked_up.append(lambda: [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 7070, 0, 2))])
    assert Names().addresses("a.local", 7070, 60.0) == ["fe80::1%2"]


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "fe80::1%1"])
def test_an_address_is_not_looked_up(host: str, looked_up: list[Answer]) -> None:
    assert Names().addresses(host, 7070, 0.0) == [host]
    assert looked_up == []
