"""The addresses of all cells, as the settings or a file have them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from milepost.wire import parsed_cells
from milepost_server.basics.watched_files import WatchedFiles

log = logging.getLogger("milepost.cells")

PLACE: Final = "@"
"""What the setting begins with if it is the place of a list: ``@/etc/milepost/cells``."""
_MOST_BYTES: Final = 64 * 1024

Addresses = Mapping[str, tuple[str, ...]]
"""By the name of each cell, the addresses of its replicas."""


class CellAddresses:
    """Returns the addresses of all cells when it is called: those in ``file`` or, without a file, ``given``."""

    def __init__(self, given: Addresses, file: WatchedFiles[Addresses] | None = None) -> None:
        self._given = given
        self.file = file

    def __call__(self) -> Addresses:
        """Return the addresses as they are now."""
        return self._given if self.file is None else self.file.now


def addresses_in(setting: str, cell: str) -> CellAddresses:
    """Return the addresses of all cells that the setting ``--cell-addresses`` has or names, for a replica of ``cell``.
    Raises ValueError if they cannot be used.
    """
    if setting and not cell:
        raise ValueError("--cell-addresses needs --cell: a deployment that is no cell asks no others")
    if not setting.startswith(PLACE):
        return CellAddresses(checked_addresses(setting) if setting else {})
    path = Path(setting.removeprefix(PLACE))
    try:
        file = WatchedFiles((path,), lambda: checked_addresses(_text(path)), "list of cells", log, _changed)
    except OSError as error:
        raise ValueError(f"--cell-addresses: cannot read {path}: {error.strerror or error}") from error
    log.info("read the addresses of the cells %s in %s", ", ".join(file.now), path)
    return CellAddresses({}, file)


def checked_addresses(text: str) -> Addresses:
    """Return the cells in a list, by name. Raises ValueError if an address cannot be used; the message does not show
    it, since it may have a password in it.
    """
    cells = parsed_cells(text)
    for name, addresses in cells.items():
        for address in addresses:
            if not _is_address(address):
                raise ValueError(f"the cell {name!r} has an address that is no http or https URL, or has a user in it")
    return {name: tuple(address.rstrip("/") for address in cells[name]) for name in sorted(cells)}


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usable = parts.port != 0 and text.isascii() and text.isprintable()
    except ValueError:
        return False
    bare = not (parts.username or parts.password or parts.query or parts.fragment)
    return usable and parts.scheme in ("http", "https") and bool(parts.hostname) and bare


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8") from error


def _changed(_old: Addresses, new: Addresses) -> None:
    log.info("read the addresses of the cells again: %s", ", ".join(new))
