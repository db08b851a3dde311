"""Where the list of cells comes from: the text itself, a file, or a URL; the last two are read again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx

from milepost.core.calls.replicas import Replicas, http_url
from milepost.core.cell_list import CellList, is_cell_list
from milepost.core.effects import Send
from milepost.drivers.connections import Connections, Verify, request_of
from milepost.drivers.deadlines import Deadline, keep

log = logging.getLogger("milepost.calls")

PLACE: Final = "@"
"""What a URL of the service begins with if it is the place of a list of cells: ``@/etc/milepost/cells``."""

_MOST_BYTES: Final = 64 * 1024
_AGAIN_SECONDS: Final = 30.0
"""For how long a list that was read from a URL is used."""
_TIMEOUT_SECONDS: Final = 5.0
"""How long the whole answer of a URL may take."""

CellSource = Callable[[], CellList]


def cells_in(text: str, verify: Verify) -> CellSource | None:
    """Return what reads the list of cells that ``text`` is or names; None if it has the addresses of one deployment.

    ``verify`` is for a URL. Raises ValueError for a list that cannot be used.
    """
    if text.startswith(PLACE):
        return Place(text.removeprefix(PLACE), verify)
    if not is_cell_list(text):
        return None
    cells = _checked(text)
    return lambda: cells


class Place:
    """Reads the list of cells in a file or at a URL, each time that it is called; at a URL, every 30 s at most.

    While there is no usable list, it returns the one that was read last. Threads may share it.
    """

    def __init__(self, place: str, verify: Verify, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the list for the first time. Raises ValueError if that is not possible."""
        parts = http_url(place)
        if parts is not None and (parts.username or parts.password):  # the message does not quote them
            raise ValueError("the URL of a list of cells must not hold credentials")
        self._place = place
        self._shown = place.partition("?")[0]  # the query of a signed URL is a secret
        self._url = parts is not None
        self._connections = Connections(verify)
        self._clock = clock
        self._troubled = False
        self._until = clock() + _AGAIN_SECONDS
        try:
            self._text = self._read()
            self._cells = _checked(self._text)
        except (OSError, ValueError, httpx.HTTPError) as error:
            # not chained: the errors of httpx quote the URL
            raise ValueError(f"cannot use the list of cells at {self._shown}: {_describe(error)}") from None

    def __call__(self) -> CellList:
        """Return the list at the place or, if there is none now, the one that was read last."""
        if self._url and self._clock() < self._until:
            return self._cells
        self._until = self._clock() + _AGAIN_SECONDS
        try:
            text = self._read()
            if text != self._text:
                self._cells, self._text = _checked(text), text
                log.info("the list of cells at %s has changed: %s", self._shown, ", ".join(self._cells.names))
            self._troubled = False
        except (OSError, ValueError, httpx.HTTPError) as error:
            if not self._troubled:
                self._troubled = True
                log.warning("no list of cells at %s, going on with the one before: %s", self._shown, _describe(error))
        return self._cells

    def _read(self) -> str:
        if not self._url:
            with Path(self._place).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        else:
            content = self._fetched()
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
        return content.decode("utf-8")

    def _fetched(self) -> bytes:
        """Read the answer of the URL, and a little more than a list may have at most."""
        deadline, content = Deadline(), bytearray()
        with self._connections.client(httpx.Client) as http:
            keep(deadline, http)
            request = request_of(http, Send("GET", self._place, {}, None, _TIMEOUT_SECONDS, signed=True), None)
            with (
                deadline.within(_TIMEOUT_SECONDS),
                closing(http.send(request, stream=True, follow_redirects=True)) as answer,
            ):
                answer.raise_for_status()
                if request.url.scheme == "https" and any(
                    each.url.scheme != "https" for each in (*answer.history, answer)
                ):
                    raise ValueError("it redirects from https to http")  # tokens go where the list says
                for chunk in answer.iter_raw():
                    content += chunk
                    if len(content) > _MOST_BYTES:
                        break
        return bytes(content)


def _checked(text: str) -> CellList:
    """Read a list of cells, and check its addresses. Raises ValueError."""
    cells = CellList.parse(text)
    for addresses in cells.cells.values():
        Replicas(addresses)
    return cells


def _describe(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP status {error.response.status_code}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
