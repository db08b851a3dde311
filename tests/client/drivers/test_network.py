"""A client's connections are made by the network backend that it was given, also those through a proxy.

A release of httpx or httpcore could keep the private names by which the backend is set, but use them no more. Then
deadlines and early answers would be lost without an error. These tests use the libraries as they are installed.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpcore
import httpx
import pytest

from milepost.drivers.network import wrap_backend

SERVER = ("server.test", 7070)
PROXY = ("proxy.test", 3128)
PROXIED = pytest.mark.parametrize(
    ("proxy", "reached"), [(None, SERVER), (f"http://{PROXY[0]}:{PROXY[1]}", PROXY)], ids=["direct", "proxied"]
)


class Refusing(httpcore.NetworkBackend):
    """Makes no connection, and notes to where one was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.NetworkStream:
        self.asked.append((host, port))
        raise httpcore.ConnectError("refused by the test")


class AsyncRefusing(httpcore.AsyncNetworkBackend):
    """The same for coroutines."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        self.asked.append((host, port))
        raise httpcore.ConnectError("refused by the test")


@PROXIED
def test_a_blocking_client_connects_by_its_backend(proxy: str | None, reached: tuple[str, int]) -> None:
    backend = Refusing()
    with httpx.Client(proxy=proxy, trust_env=False, timeout=60.0) as http:
        wrap_backend(http, lambda _: backend)
        with pytest.raises(httpx.ConnectError, match="refused by the test"):
            http.get(f"http://{SERVER[0]}:{SERVER[1]}/")
    assert backend.asked == [reached]


@PROXIED
def test_an_asynchronous_client_connects_by_its_backend(proxy: str | None, reached: tuple[str, int]) -> None:
    backend = AsyncRefusing()

    async def ask() -> None:
        async with httpx.AsyncClient(proxy=proxy, trust_env=False, timeout=60.0) as http:
            wrap_backend(http, lambda _: backend)
            with pytest.raises(httpx.ConnectError, match="refused by the test"):
                await http.get(f"http://{SERVER[0]}:{SERVER[1]}/")

    asyncio.run(ask())
    assert backend.asked == [reached]
