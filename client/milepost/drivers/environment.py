"""How the service is reached: what a program gives, and what the environment says where it gives no address."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Final, TypedDict

from milepost.core.calls.credentials import AsyncToken, Token
from milepost.drivers.connections import Verify, trusting
from milepost.drivers.token_file import TokenFile

URL: Final = "MILEPOST_URL"
TOKEN: Final = "MILEPOST_TOKEN"
TOKEN_FILE: Final = "MILEPOST_TOKEN_FILE"
CA: Final = "MILEPOST_CA"
CERT: Final = "MILEPOST_CERT"
KEY: Final = "MILEPOST_KEY"

File = str | PathLike[str]


class ConnectionArguments(TypedDict):
    """The arguments of `milepost.Client` that say how to reach the service, as a program gave them.

    Another process makes a client of its own from them, and completes them by its own environment.
    """

    url: str | Sequence[str] | None
    token: Token | None
    token_file: File | None
    verify: Verify | None
    cert: File | None
    key: File | None


@dataclass(frozen=True)
class Access:
    """The addresses of a service, what shows it who calls, and which certificates are trusted and shown."""

    addresses: tuple[str, ...]
    token: AsyncToken | None = field(repr=False)
    verify: Verify


def access(
    url: str | Sequence[str] | None,
    *,
    token: AsyncToken | None = None,
    token_file: File | None = None,
    verify: Verify | None = None,
    cert: File | None = None,
    key: File | None = None,
) -> Access:
    """Return what was given, and without ``url`` for the rest what the environment says.

    The environment describes one service. Its token and its certificate belong to the addresses there, and are shown to
    no others. Raises ValueError if there is no address, and for files and settings that cannot be used.
    """
    if url is not None:
        addresses = (url,) if isinstance(url, str) else tuple(url)
        return Access(addresses, _token(token, token_file), _verify(verify, cert, key))
    addresses = addresses_in(os.environ.get(URL, ""))
    if not addresses:
        raise ValueError(f"no address of a Milepost service: give one to the client, or set {URL}")
    if token is None and token_file is None:
        token = _variable(TOKEN)
        token_file = None if token else _variable(TOKEN_FILE)
    if verify is None:
        verify = _variable(CA)
    if cert is None and verify is not False and not isinstance(verify, ssl.SSLContext):
        cert, key = _variable(CERT), key or _variable(KEY)
    return Access(addresses, _token(token, token_file), _verify(verify, cert, key))


def addresses_in(text: str) -> tuple[str, ...]:
    """Return the addresses that a text has with commas between them."""
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
