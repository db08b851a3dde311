"""Looks up the addresses of a name within the time that a call has left.

The system's resolver has a deadline of its own, which no program can change: with a name server that does not answer, a
look-up takes ten seconds or more for each way to complete the name. So a look-up runs in a thread that nobody must wait
for.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Final

import httpcore

from milepost.core.clock import Clock, monotonic

PATIENCE_SECONDS: Final = 1.0
"""The seconds after which a look-up is late. Its packet may be lost, so the next caller begins another look-up."""

MOST_LOOK_UPS: Final = 3
"""The most look-ups of one name at a time, each of which has a thread."""


class Names:
    """Looks up names in threads. Callers that ask for the same name at the same time share one look-up, unless it is
    late (`PATIENCE_SECONDS`).
    """

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], list[_LookUp]] = {}

    def addresses(self, host: str, port: int, seconds: float | None) -> Sequence[str]:
        """Return the addresses of ``host`` in the order in which to try them, within ``seconds`` (None: no limit).

        Raises `httpcore.ConnectError` if the name cannot be resolved, and `httpcore.ConnectTimeout` if there is no
        answer in time.
        """
        if _is_address(host):
            return [host]
        with self._lock:
            running, now = self._running.setdefault((host, port), []), self._clock()
            is_late = bool(running) and now - running[-1].began > PATIENCE_SECONDS
            if begins := not running or (is_late and len(running) < MOST_LOOK_UPS):
                running.append(_LookUp(host, port, now))
            waited = running[-1]
        if begins:
            try:
                threading.Thread(target=self._finish, args=(waited,), name="milepost-names", daemon=True).start()
            except RuntimeError:  # no thread can be started: a look-up without a deadline is better than none
                self._finish(waited)
        if not wait([waited.answer], seconds).done:
            raise httpcore.ConnectTimeout(f"the name {host} was not looked up in time")
        error = waited.answer.exception()
        if isinstance(error, (OSError, UnicodeError)):
            raise httpcore.ConnectError(str(error)) from error
        return waited.answer.result()

    def _finish(self, looked_up: _LookUp) -> None:
        try:
            found = socket.getaddrinfo(looked_up.host, looked_up.port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(_text(address) for *_, address in found))
        except BaseException as error:  # noqa: BLE001 - raised in the threads that wait
            self._forget(looked_up)
            looked_up.answer.set_exception(error)
        else:
            self._forget(looked_up)
            looked_up.answer.set_result(addresses)

    def _forget(self, looked_up: _LookUp) -> None:
        with self._lock:
            running = self._running[looked_up.host, looked_up.port]
            running.remove(looked_up)
            if not running:
                del self._running[looked_up.host, looked_up.port]


@dataclass(frozen=True, eq=False)
class _LookUp:
    """One look-up of a name, which ``began`` at a monotonic time."""

    host: str
    port: int
    began: float
    answer: Future[Sequence[str]] = field(default_factory=Future)


def _text(address: Any) -> str:
    """Return the address of a socket as a host that needs no look-up; one of IPv6 may have a zone."""
    host, zone = str(address[0]), address[3] if len(address) == 4 else 0
    return f"{host}%{zone}" if zone and "%" not in host else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
