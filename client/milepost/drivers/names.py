"""Looks up the addresses of a name within the time that a call has left.

The system's resolver has a deadline of its own, which no program can change: with a name server that does not answer, a
look-up takes ten seconds or more for each way to complete the name. So a look-up runs in a thread that nobody must wait
for.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait

import httpcore


class Names:
    """Looks up names, each in one thread at a time: whoever asks for a name meanwhile waits for the same answer."""

    def __init__(self) -> None:
        # A process that was forked meanwhile has no such thread, so it must not wait for one.
        self._running: dict[tuple[int, str, int], Future[Sequence[str]]] = {}

    def addresses(self, host: str, port: int, seconds: float | None) -> Sequence[str]:
        """Return the addresses of ``host`` in the order in which to try them, within ``seconds`` (None: no limit).

        Raises `httpcore.ConnectError` if the name cannot be resolved, and `httpcore.ConnectTimeout` if there is no
        answer in time.
        """
        if _is_address(host):
            return [host]
        key, mine = (os.getpid(), host, port), Future[Sequence[str]]()
        running = self._running.setdefault(key, mine)
        if running is mine:
            threading.Thread(target=self._look_up, args=(key, mine), name="milepost-names", daemon=True).start()
        if not wait([running], seconds).done:
            raise httpcore.ConnectTimeout(f"the name {host} was not looked up in time")
        try:
            return running.result()
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error

    def _look_up(self, key: tuple[int, str, int], answer: Future[Sequence[str]]) -> None:
        _, host, port = key
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except BaseException as error:  # noqa: BLE001 - raised in the threads that wait
            del self._running[key]
            answer.set_exception(error)
        else:
            del self._running[key]
            answer.set_result(list(dict.fromkeys(str(address[0]) for *_, address in found)))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
