"""The signals that end a server."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn

from milepost_backends.contract import BackendError, Misconfigured, StorageFull, StorageUnavailable
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.server import HttpServer, bound
from tests.support.servers.replicas import Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


class Interrupted(logging.Handler):
    """A signal comes in the midst of a log line."""

    def __init__(self, server: HttpServer) -> None:
        super().__init__()
        self._server = server

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("stopping"):
            self._server.handle_exit(signal.SIGTERM, None)


async def test_a_second_signal_ends_it_though_it_comes_before_the_first_is_dealt_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "milepost")
    raised: list[int] = []
    ends = SimpleNamespace(
        Signals=signal.Signals, SIG_DFL=signal.SIG_DFL, signal=lambda *_: None, raise_signal=raised.append
    )
    monkeypatch.setattr("milepost_server.server.signal", ends)
    async with rig(embedded(tmp_path)) as running:
        server = HttpServer(uvicorn.Config(lambda: None, log_config=None), running.replica)
        server._loop = asyncio.get_running_loop()
        listener = Interrupted(server)
        logging.getLogger("milepost").addHandler(listener)
        try:
            server.handle_exit(signal.SIGTERM, None)

            async def stopped() -> bool:
                return server.should_exit

            await until(stopped)
        finally:
            logging.getLogger("milepost").removeHandler(listener)
        assert raised


class Refusing(LocalBlobs):
    """Blobs that are away at first, and then answer that they can never be used."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._answers: Iterator[BackendError] = iter([StorageUnavailable("away"), StorageFull("full")])

    async def open(self) -> None:
        raise next(self._answers, Misconfigured("cannot write with If-None-Match: *"))


async def test_a_backend_that_refuses_for_good_once_it_answers_ends_the_server(tmp_path: Path) -> None:
    """As it would have ended the start, had it answered then."""
    running = Rig(embedded(tmp_path, lambda: Refusing(tmp_path / "blobs")))
    server = HttpServer(uvicorn.Config(lambda: None, log_config=None, lifespan="off"), running.replica)
    with pytest.raises(Misconfigured, match="If-None-Match"):
        async with asyncio.timeout(120):
            await server.serve_replica(bound("127.0.0.1", 0))
