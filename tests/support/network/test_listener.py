"""A listener keeps its port after its end, since clients may still connect to it."""

from __future__ import annotations

import socket

import pytest

from tests.support.network.link import link

pytestmark = pytest.mark.anyio


async def test_after_its_end_nobody_else_gets_its_port() -> None:
    async with link(1) as made:
        pass
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", made.port))
