"""Reserves free ports of this machine for the servers that are going to listen on them."""

from __future__ import annotations

import socket


class Port:
    """A free port of 127.0.0.1, or of another address, reserved until this process ends.

    A socket is bound to the port, but does not listen. So the system gives the port to nobody else, while a server that
    sets SO_REUSEADDR, as all servers of the testbed do, can listen on it again and again.

    The reservation outlasts the server, because clients do too: a Spark keeps the state stores of a query that has
    ended, and their maintenance goes on asking the server for minutes. A program that was given the port would take
    such a request for one of its own.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as reservation:
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reservation.bind((host, 0))
            self.number: int = reservation.getsockname()[1]
            reservation.detach()

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
