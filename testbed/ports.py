"""Reserves free ports of this machine for the servers that are going to listen on them."""

from __future__ import annotations

import socket


class Port:
    """A free port of 127.0.0.1, or of another address, reserved until it is released, or until the end of a ``with``.

    A socket is bound to the port, but does not listen. So the system gives the port to nobody else, while a server that
    sets SO_REUSEADDR, as all servers of the testbed do, can listen on it again and again.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reservation.bind((host, 0))
        self.number: int = self._reservation.getsockname()[1]

    @property
    def address(self) -> str:
        """The address ``127.0.0.1:number``, or with another host."""
        return f"{self._host}:{self.number}"

    def answers(self, timeout: float = 1.0) -> bool:
        """Return whether somebody takes connections there, within ``timeout`` seconds."""
        try:
            socket.create_connection((self._host, self.number), timeout).close()
        except OSError:
            return False
        return True

    def __enter__(self) -> Port:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the port up, so that anybody may get it. Idempotent."""
        self._reservation.close()
