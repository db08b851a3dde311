"""The file of contexts (services that have a name), and the connection settings of a command.

A setting comes from a flag, the environment, a context or the default, in this order; but a context that a flag names
comes before the environment. Only one process at a time changes the file.
"""

from __future__ import annotations

import copy
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from milepost.core.calls.credentials import Token
from milepost.drivers.environment import TokenFile, addresses_in
from milepost.portable import others_may_read, try_lock

DEFAULT_URL: Final = "http://127.0.0.1:7070"
FILE_VARIABLE: Final = "MILEPOST_CONFIG"
CURRENT: Final = "current-context"
CONTEXTS: Final = "contexts"
TOKEN: Final = "token"
TOKEN_FILE: Final = "token-file"
FILES: Final = ("ca", "cert", "key", TOKEN_FILE)
"""The members of a context that are paths. A relative path starts at the directory of the file of contexts."""
MEMBERS: Final = ("url", *FILES, TOKEN)

_LOCK_SECONDS: Final = 10.0
_LOCK_POLL: Final = 0.02


class ConfigError(Exception):
    """The file of contexts cannot be used, or does not contain the requested context."""


@dataclass(frozen=True)
class ContextFile:
    """The file of contexts at ``path``. A change of the file keeps the members of the document that this release does
    not know.
    """

    path: Path

    @classmethod
    def of_user(cls, environment: Mapping[str, str]) -> ContextFile:
        """Return this user's file of contexts.

        It is the one that MILEPOST_CONFIG names, or else ``milepost/config.yaml`` in XDG_CONFIG_HOME or ``~/.config``.
        """
        named = environment.get(FILE_VARIABLE)
        home = environment.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
        return cls(Path(named).expanduser() if named else Path(home, "milepost", "config.yaml"))

    def read(self) -> Config:
        """Return the content of the file; empty if it does not exist. Raises `ConfigError`."""
        try:
            with self.path.open("rb") as opened:
                mode, content = os.fstat(opened.fileno()).st_mode, opened.read()
        except FileNotFoundError:
            return Config(self.path, {})
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read: {error.strerror}") from error
        return Config(self.path, _checked(self.path, content), readable_by_others=others_may_read(mode))

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Let ``edit`` change the content of the file, and replace the file atomically.

        No other process changes the file meanwhile. An invalid file stays unchanged. Raises `ConfigError`.
        """
        path = self.path.resolve()  # a symbolic link stays, and the file that it names is replaced
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(path):
                document = copy.deepcopy(dict(self.read().document))
                edit(document)
                _write(path, yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode())
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}") from error


@dataclass(frozen=True)
class Config:
    """The content of the file of contexts. Its ``repr`` omits the document, which may contain tokens."""

    path: Path
    document: Mapping[str, Any] = field(repr=False)
    readable_by_others: bool = False

    @property
    def current(self) -> str | None:
        """The name of the context that a command uses by default."""
        return self.document.get(CURRENT) or None

    @property
    def contexts(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of each context, such as ``url`` and ``token``, by the context's name."""
        return self.document.get(CONTEXTS) or {}

    def context(self, name: str) -> dict[str, str]:
        """Return the settings of a context, with absolute paths. Raises `ConfigError` if there is no such context, or
        it has no url.
        """
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ConfigError(f"there is no context {name!r} in {self.path}; those that are there: {known}")
        members = dict(self.contexts[name])
        if "url" not in members:
            raise ConfigError(f"{self.path}: the context {name!r} has no url")
        return {key: str(self.path.parent / value) if key in FILES else value for key, value in members.items()}

    def warnings(self) -> list[str]:
        """Return warnings for the user, for example that other users may read the tokens in the file."""
        if self.readable_by_others and any(TOKEN in members for members in self.contexts.values()):
            return [f"others may read {self.path}, which has tokens: chmod 600 {self.path}"]
        return []


def _checked(path: Path, content: bytes) -> dict[str, Any]:
    """Return the document in ``content``, the bytes of the file at ``path``. Raises `ConfigError` if it is invalid; the
    error does not quote the content, which may contain a token.
    """
    try:
        document = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"{path} is broken{where}: it is no YAML; mend it, or move it away") from None
    # PyYAML also raises Python's own exceptions, for an invalid date, for example
    except (yaml.YAMLError, ValueError, LookupError, RecursionError):
        raise ConfigError(f"{path} is broken: it is no YAML; mend it, or move it away") from None
    document = {} if document is None else document
    contexts = document.get(CONTEXTS) or {} if isinstance(document, dict) else None
    if not isinstance(contexts, dict) or not isinstance(document.get(CURRENT) or "", str):
        raise ConfigError(f"{path} is broken: it is to have {CURRENT!r}, a name, and {CONTEXTS!r}, by their names")
    for name, members in contexts.items():
        known = {key: members[key] for key in MEMBERS if key in members} if isinstance(members, dict) else None
        if not isinstance(name, str) or known is None or not all(isinstance(value, str) for value in known.values()):
            raise ConfigError(f"{path} is broken: the context {name!r} is to have texts under {', '.join(MEMBERS)}")
    return document


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file at ``path`` during the block. The lock is on another file beside it,
    which is never removed.
    """
    beside = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + _LOCK_SECONDS
    with open(os.open(beside, os.O_RDWR | os.O_CREAT, 0o600), "rb") as opened:
        while not try_lock(opened.fileno()):
            if time.monotonic() >= deadline:
                raise ConfigError(f"another process has held {beside} for {_LOCK_SECONDS:g} s")
            time.sleep(_LOCK_POLL)
        yield


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@dataclass(frozen=True)
class Given:
    """The connection settings from one source: the flags, the environment or a context. ``token`` overrides
    ``token_file``.
    """

    context: str | None = None
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Reached:
    """The connection settings of a command, combined from all sources; ``warnings`` are for the user of the command.

    A token in a file is a `TokenFile`, which reads the file for each request, since `milepost run` may last longer than
    a token is valid.
    """

    urls: tuple[str, ...]
    token: Token | None = field(default=None, repr=False)
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    warnings: tuple[str, ...] = ()


def reached(flags: Given, environment: Given, read: Callable[[], Config]) -> Reached:
    """Combine the connection settings. ``read`` reads the file of contexts, and is called only if a context is needed.

    If the address comes from a flag or the environment, no setting of a context applies, so that no token is sent to an
    address for which it was not issued. A context that a flag names overrides the environment. In that case the token
    of the environment applies only if the environment has no address of its own. Raises `ConfigError`.
    """
    if flags.context is not None:
        chosen, warnings = _context(read(), flags.context)
        layers = [flags, chosen, environment if environment.url is None else Given()]
    elif flags.url is not None or (environment.url is not None and environment.context is None):
        warnings, layers = [], [flags, environment]
    elif environment.url is not None:
        raise ConfigError("MILEPOST_URL and MILEPOST_CONTEXT are both set: which one counts? Unset one of them")
    else:
        config = read()
        name = environment.context or config.current
        chosen, warnings = (Given(), []) if name is None else _context(config, name)
        layers = [flags, environment, chosen]
    url = next((layer.url for layer in layers if layer.url is not None), DEFAULT_URL)
    ca = next((layer.ca for layer in layers if layer.ca is not None), None)
    return Reached(addresses_in(url), _token(layers), ca, *_certificate(layers), tuple(warnings))


def _token(layers: list[Given]) -> Token | None:
    for layer in layers:
        if layer.token is not None:
            return layer.token
        if layer.token_file is not None:
            return _token_of(layer.token_file)
    return None


def _token_of(path: Path) -> TokenFile:
    try:
        return TokenFile(path)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _certificate(layers: list[Given]) -> tuple[Path | None, Path | None]:
    """Return the file of the client's certificate and that of its key, each None if there is none.

    ``layers`` are the sources of settings, each of which overrides those after it. The first source with a certificate
    counts. The key is from the same source, or from one that overrides it.
    """
    key = None
    for layer in layers:
        key = key or layer.key
        if layer.cert is not None:
            return layer.cert, key
    return None, key


def _context(config: Config, name: str) -> tuple[Given, list[str]]:
    members = config.context(name)
    warnings = config.warnings()
    files = {key.replace("-", "_"): Path(members[key]) for key in FILES if key in members}
    kept = files.get("token_file")
    if kept is not None and "token" not in members and _token_of(kept).readable_by_others:
        warnings.append(f"others may read {kept}, which has a token: chmod 600 {kept}")
    return Given(name, members["url"], members.get("token"), **files), warnings
