"""Reads the file of tokens: a line for each client, with its token or its account, and what it may do.

::

    driver       0123456789abcdef0123456789abcdef       writer=flights-*
    dashboards   sha256:9f86d081884c7d65…               reader=*
    ops          sha256:60303ae22b998861…               admin
    serviceaccount:spark/flights                        writer=flights,flights-test
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final

from milepost_server.basics.watched_files import WatchedFiles
from milepost_server.http.access import audit
from milepost_server.http.access.rights import EVERYTHING, READING, STAR, Patterns, Rights
from milepost_server.http.access.tokens import ACCOUNT_PREFIX, AccountRights, Principal, Tokens, digest_of

log = logging.getLogger("milepost.tokens")

_LEAST: Final = 16
_HASHED: Final = "sha256:"
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}\Z")
_ACCOUNT: Final = re.compile(r"(?P<namespace>[a-z0-9-]{1,63})/(?P<name>\*|[a-z0-9.-]{1,253})\Z")
_OF_ROLES: Final = ("reader=", "writer=")
_ROLES: Final = "read-only, or of reader=PATTERN,… writer=PATTERN,… admin"


def watched_tokens(path: Path, *, accounts: bool) -> WatchedFiles[Tokens]:
    """Read the token file, and return it as a `WatchedFiles`, which reads it again when it changes. Raises the errors
    of `read_tokens`.
    """
    read = WatchedFiles((path,), lambda: read_tokens(path, accounts=accounts), "tokens", log, _changed)
    log.info("read %d clients in %s", len(read.now.names), path)
    return read


def read_tokens(path: Path, *, accounts: bool = False) -> Tokens:
    """Read a token file, and return its clients; ``#`` begins a comment. ``accounts`` is whether lines for accounts of
    Kubernetes are allowed.

    Raises a ValueError that names the line, but never its token.
    """
    listed: dict[bytes, Principal] = {}
    of_accounts: dict[str, AccountRights] = {}
    lines: dict[object, int] = {}
    for number, line in enumerate(_text(path).split("\n"), 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        try:
            if fields[0].startswith(ACCOUNT_PREFIX):
                account = _account(fields, accounts=accounts)
                _once(lines, number, str(account), "the account")
                of_accounts[str(account)] = account
            else:
                client = _client(fields)
                assert client.digest is not None
                _once(lines, number, client.digest, "the token")
                listed[client.digest] = client
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    if not lines:
        raise ValueError(f"{path} holds no token")
    return Tokens(listed.values(), of_accounts.values())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors save UTF-8 with a byte order mark
    except UnicodeDecodeError:  # the exception contains the content of the file, which has secrets
        raise ValueError(f"{path} is no text in UTF-8") from None


def _once(lines: dict[object, int], number: int, key: object, what: str) -> None:
    if key in lines:
        raise ValueError(f"{what} is already in line {lines[key]}: let one line say all that it may do")
    lines[key] = number


def _client(fields: list[str]) -> Principal:
    if len(fields) < 2:
        raise ValueError(f"expected 'name token', or behind that {_ROLES}")
    name, token, *roles = fields
    # a line without a token has a role in its place, which everyone could guess as a token
    if token.startswith(_OF_ROLES):
        raise ValueError("a role stands where the token should be")
    rights = _rights(roles)
    if not token.lower().startswith(_HASHED):
        if len(token) < _LEAST:
            raise ValueError(f"a token needs at least {_LEAST} characters")
        return Principal(name, rights, digest_of(token), secret=False)
    digest = token[len(_HASHED) :]
    if not _DIGEST.match(digest):
        raise ValueError(f"{_HASHED} takes the 64 hexadecimal digits of a SHA-256")
    return Principal(name, rights, bytes.fromhex(digest))


def _account(fields: list[str], *, accounts: bool) -> AccountRights:
    if not accounts:
        raise ValueError(f"{ACCOUNT_PREFIX} needs --service-accounts")
    match = _ACCOUNT.match(fields[0].removeprefix(ACCOUNT_PREFIX))
    if match is None or len(fields) < 2:
        raise ValueError(f"expected '{ACCOUNT_PREFIX}NAMESPACE/NAME' (or /{STAR}), and behind that {_ROLES}")
    return AccountRights(match["namespace"], match["name"], _rights(fields[1:]))


def _rights(roles: list[str]) -> Rights:
    """Return the rights that the roles of a line give. A line without roles gives all rights, since roles did not exist
    in older token files.
    """
    if not roles:
        return EVERYTHING
    if roles == ["read-only"]:
        return READING
    found: dict[str, Patterns] = {}
    for number, role in enumerate(roles, 3):
        name, separator, patterns = role.partition("=")
        known = name in ("reader", "writer") if separator else name == "admin"
        if not known:  # the error does not quote the unknown word, which may be a token that was put in the wrong place
            raise ValueError(f"the role at place {number} is none: expected {_ROLES}")
        if name in found:
            raise ValueError(f"{name} is there twice: put commas between patterns")
        found[name] = Patterns(tuple(patterns.split(","))) if separator else Patterns()
    return EVERYTHING if "admin" in found else Rights(found.get("reader", Patterns()), found.get("writer", Patterns()))


def _changed(old: Tokens, new: Tokens) -> None:
    added, removed = set(new.names) - set(old.names), set(old.names) - set(new.names)
    log.info("read %d clients again; the next requests go by them", len(new.names))
    audit.note(
        "read-tokens",
        f"{len(new.names)} clients",
        detail=f"added {_named(added)}; removed {_named(removed)}",
    )


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
