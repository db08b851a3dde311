"""Where the list of cells comes from: the text itself, a file, or a URL; the last two are read again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Final

import httpx

from milepost.core.calls.replicas import Replicas, http_url
from milepost.core.cell_list import CellList, is_cell_list
from milepost.drivers.connections import Verify, trusting

log = logging.getLogger("milepost.calls")

PLACE: Final = "@"
"""What a URL of the service begins with if it is the place of a list of cells: ``@/etc/milepost/cells``."""

_MOST_BYTES: Final = 64 * 1024
_AGAIN_SECONDS: Final = 30.0
"""For how long a list that was read from a URL is used."""
_TIMEOUT_SECONDS: Final = 5.0

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
        self._place = place
        self._url = http_url(place) is not None
        self._context = trusting(verify) if isinstance(verify, PathLike) else verify
        self._clock = clock
        self._troubled = False
        self._until = clock() + _AGAIN_SECONDS
        try:
            self._text = self._read()
            self._cells = _checked(self._text)
        except (OSError, ValueError, httpx.HTTPError) as error:
            raise ValueError(f"cannot use the list of cells at {place}: {_describe(error)}") from error

    def __call__(self) -> CellList:
        """Return the list at the place or, if there is none now, the one that was read last."""
        if self._url and self._clock() < self._until:
            return self._cells
        self._until = self._clock() + _AGAIN_SECONDS
        try:
            text = self._read()
            if text != self._text:
                self._cells, self._text = _checked(text), text
                log.info("the list of cells at %s has changed: %s", self._place, ", ".join(self._cells.names))
            self._troubled = False
        except (OSError, ValueError, httpx.HTTPError) as error:
            if not self._troubled:
                self._troubled = True
                log.warning("no list of cells at %s, going on with the one before: %s", self._place, _describe(error))
        return self._cells

    def _read(self) -> str:
        if not self._url:
            with Path(self._place).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        else:
            answer = httpx.get(self._place, verify=self._context, timeout=_TIMEOUT_SECONDS, follow_redirects=True)
            answer.raise_for_status()
            content = answer.content
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
        return content.decode("utf-8")


def _checked(text: str) -> CellList:
    """Read a list of cells, and check its addresses. Raises ValueError."""
    cells = CellList.parse(text)
    for addresses in cells.cells.values():
        Replicas(addresses)
    return cells


def _describe(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
