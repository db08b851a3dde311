"""A name is looked up once for all who wait for it, and nobody waits for longer than it may."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore
import pytest

from milepost.drivers.names import Names

Answer = Callable[[], list[Any]]


def answers(*hosts: str) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 7070)) for host in hosts]


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """The answers to the look-ups to come, the last of which is the next."""
    to_come: list[Answer] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: to_come.pop()())
    return to_come


def test_all_that_ask_meanwhile_get_one_answer(looked_up: list[Answer]) -> None:
    names, begun, over = Names(), threading.Event(), threading.Event()

    def slowly() -> list[Any]:
        begun.set()
        assert over.wait(60.0)
        return answers("10.0.0.1", "10.0.0.2", "10.0.0.1")

    looked_up.append(slowly)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(names.addresses, "a.test", 7070, None)
        assert begun.wait(60.0)
        with pytest.raises(httpcore.ConnectTimeout, match=r"a\.test"):
            names.addresses("a.test", 7070, 0.01)
        assert not looked_up, "another look-up would have failed"
        over.set()
        assert first.result(60.0) == ["10.0.0.1", "10.0.0.2"]


def test_an_answer_is_not_kept(looked_up: list[Answer]) -> None:
    def refused() -> list[Any]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    names = Names()
    looked_up += [lambda: answers("10.0.0.2"), refused, lambda: answers("10.0.0.1")]
    assert names.addresses("a.test", 7070, 60.0) == ["10.0.0.1"]
    with pytest.raises(httpcore.ConnectError, match="Temporary failure"):
        names.addresses("a.test", 7070, 60.0)
    assert names.addresses("a.test", 7070, 60.0) == ["10.0.0.2"]


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "fe80::1%1"])
def test_an_address_is_not_looked_up(host: str, looked_up: list[Answer]) -> None:
    assert Names().addresses(host, 7070, 0.0) == [host]
    assert looked_up == []
