"""Clients that write and read all the while something is exchanged in the server, and remember what failed."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import httpx

from testbed.server import ServerProcess
from tests.support.servers.certificates import Certificates
from tests.wire.support.api import Api


class Load(threading.Thread):
    """Writes by one connection that is kept, and reads by a new one each time; nothing is sent again."""

    def __init__(
        self, server: ServerProcess, own: Certificates, store: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self.asked = 0
        self.failed: list[object] = []
        self.stopping = threading.Event()
        self._server, self._own, self._store, self._headers = server, own, store, headers

    def run(self) -> None:
        context, url, headers = self._own.trusting(), self._server.url, self._headers
        with httpx.Client(base_url=url, headers=headers, verify=context, trust_env=False, timeout=30.0) as http:
            api = Api.on(http, self._store)
            while not self.stopping.is_set():
                try:
                    added = api.add(f"{self.asked}", b"x" * 50_000)
                    read = httpx.get(f"{url}/v1/stores", headers=headers, verify=context, trust_env=False, timeout=30.0)
                    self.failed += [answer.text for answer in (added, read) if not answer.is_success]
                except httpx.HTTPError as error:
                    self.failed.append(error)
                self.asked += 2

    def __enter__(self) -> Load:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.join(60.0)
