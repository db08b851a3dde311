"""Finds the addresses of the service and the caller's credentials: in a program's arguments or, if these have no
address, in the environment.

A token may be in a file, which another program rewrites before the token expires.
"""

from __future__ import annotations

import getpass
import logging
import os
import platform
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Final, TypedDict

from milepost.core.calls.calls import Caller
from milepost.core.calls.cells import CellsCaller
from milepost.core.calls.credentials import AsyncToken, Token
from milepost.core.calls.replicas import Replicas
from milepost.core.cell_list import is_cell_list
from milepost.drivers.cell_lists import PLACE, CellSource, cells_in
from milepost.drivers.connections import Verify, trusting
from milepost.portable import others_may_read
from milepost.types import Process

URL: Final = "MILEPOST_URL"
TOKEN: Final = "MILEPOST_TOKEN"
TOKEN_FILE: Final = "MILEPOST_TOKEN_FILE"
CA: Final = "MILEPOST_CA"
CERT: Final = "MILEPOST_CERT"
KEY: Final = "MILEPOST_KEY"

File = str | PathLike[str]

log = logging.getLogger("milepost.calls")

_MOST_BYTES = 64 * 1024

MOST_CHARACTERS = 200
"""The longest holder that the service accepts."""


class ConnectionArguments(TypedDict):
    """The arguments of `milepost.Client` that say how to reach the service, as a program passed them.

    An executor gets these arguments from its driver, and makes its own client with them; without ``url``, that client
    takes the missing ones from the executor's environment.
    """

    url: str | Sequence[str] | None
    token: Token | None
    token_file: File | None
    verify: Verify | None
    cert: File | None
    key: File | None


@dataclass(frozen=True)
class Access:
    """The addresses of a service, the caller's credentials, the trusted certificates and the presented one. ``cells``
    reads the list of cells; None for one deployment.
    """

    addresses: tuple[str, ...]
    token: AsyncToken | None = field(repr=False)
    verify: Verify
    cells: CellSource | None = None

    def caller(self, timeout: float, direct_above: int | None) -> Caller:
        """Make the caller of a client, whose calls take ``timeout`` seconds, and which transfers states of more than
        ``direct_above`` bytes directly. Raises ValueError for addresses that cannot be used.
        """

        def of_one(replicas: Replicas) -> Caller:
            return Caller(replicas, timeout=timeout, token=self.token, direct_above=direct_above)

        return of_one(Replicas(self.addresses)) if self.cells is None else CellsCaller(self.cells, of_one, timeout)


def access(
    url: str | Sequence[str] | None,
    *,
    token: AsyncToken | None = None,
    token_file: File | None = None,
    verify: Verify | None = None,
    cert: File | None = None,
    key: File | None = None,
) -> Access:
    """Return the `Access` that the arguments describe; without ``url``, take missing ones from the environment.

    The environment describes one service. So its token and its certificate are used only with the addresses of the
    environment, never with a ``url`` argument. Raises ValueError if there is no address, and for files and settings
    that cannot be used.
    """
    if url is not None:
        addresses = (url,) if isinstance(url, str) else tuple(url)
        bearer, trusted = _token(token, token_file), _verify(verify, cert, key)
        return Access(addresses, bearer, trusted, cells_in(addresses[0], trusted) if len(addresses) == 1 else None)
    named = os.environ.get(URL, "").strip()
    if not addresses_in(named):
        raise ValueError(f"no address of a Milepost service: give one to the client, or set {URL}")
    if token is None and token_file is None:
        token = _variable(TOKEN)
        token_file = None if token else _variable(TOKEN_FILE)
    if verify is None:
        verify = _variable(CA)
    if cert is None and verify is not False and not isinstance(verify, ssl.SSLContext):
        cert, key = _variable(CERT), key or _variable(KEY)
    bearer, trusted = _token(token, token_file), _verify(verify, cert, key)
    return Access(addresses_in(named), bearer, trusted, cells_in(named, trusted))


def addresses_in(text: str) -> tuple[str, ...]:
    """Return the addresses in a comma-separated text; a list of cells, or the place of one, is returned as it is."""
    if text.startswith(PLACE) or is_cell_list(text):
        return (text,)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


def _token(token: AsyncToken | None, file: File | None) -> AsyncToken | None:
    if file is None:
        return token
    if token is not None:
        raise ValueError("a token and a file of one do not go together")
    return TokenFile(file)


def _verify(verify: Verify | None, cert: File | None, key: File | None) -> Verify:
    if cert is None:
        if key is not None:
            raise ValueError("a key goes with a certificate: give cert too")
        return True if verify is None else verify
    if verify is None or verify is True:
        return trusting(None, cert, key)
    if isinstance(verify, (str, PathLike)):
        return trusting(verify, cert, key)
    raise ValueError("cert goes with verify=True or a file of authorities; an SSLContext has a certificate of its own")


class TokenFile:
    """Returns the token that a file contains, each time that it is called. Threads may share it.

    Each call reads the file, so a new token takes effect at once. While the file cannot be read, or is empty because
    its replacement is not complete, the call returns the token that was read last.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file for the first time. Raises ValueError if the file cannot be read or has no token."""
        self._path = Path(path)
        self._troubled = False
        try:
            self._token = _token_in(self._path)
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot use the file of a token {self._path}: {_describe(error)}") from error

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"

    @property
    def readable_by_others(self) -> bool:
        """Whether users other than the file's owner may read it; False if the system cannot tell, as on Windows."""
        try:
            return others_may_read(self._path.stat().st_mode)
        except OSError:
            return False

    def __call__(self) -> str:
        """Return the token in the file or, if the file has none now, the token that was read last."""
        try:
            self._token = _token_in(self._path)
            self._troubled = False
        except (OSError, ValueError) as error:
            if not self._troubled:
                self._troubled = True
                log.warning("no token in %s, going on with the one before: %s", self._path, _describe(error))
        return self._token


def _token_in(path: Path) -> str:
    with path.open("rb") as file:
        found = file.read(_MOST_BYTES).strip()
    if not found:
        raise ValueError("it is empty")
    if any(not 0x21 <= byte <= 0x7E for byte in found):
        raise ValueError("a token is one word of printable ASCII, without a name before it or a line behind it")
    return found.decode("ascii")


def _describe(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def this_process(application: str | None = None, ui: str | None = None) -> Process:
    """Describe this process, which runs the ``application`` of Spark with the user interface at the address ``ui``."""
    return Process(platform.node() or None, os.getpid(), application, ui)


def default_holder() -> str:
    """Return ``user@host:pid``, without the characters that the service refuses in a holder."""
    holder = f"{_user()}@{platform.node() or 'unknown'}:{os.getpid()}"
    return "".join(character if character.isprintable() else "?" for character in holder)[-MOST_CHARACTERS:]


def _user() -> str:
    """Return the user's name, or the user id if the user has no name, as in many containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # up to Python 3.12, a missing user is KeyError or ImportError
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
