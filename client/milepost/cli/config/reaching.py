"""Finds the service for a command: by flags, the environment, a context, or the default, in this order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from milepost.cli.config.contexts import FILES, Config, ConfigError
from milepost.core.calls.credentials import Token
from milepost.drivers.environment import TokenFile, addresses_in

DEFAULT_URL: Final = "http://127.0.0.1:7070"


@dataclass(frozen=True)
class Given:
    """One source of connection settings. Within one source, a token overrides a token file."""

    context: str | None = None
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Reached:
    """The connection settings from all sources; ``warnings`` are for the user of the command.

    A token in a file is a `TokenFile`, which reads it for each request: `milepost run` outlives tokens.
    """

    urls: tuple[str, ...]
    token: Token | None = field(default=None, repr=False)
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    warnings: tuple[str, ...] = ()


def reached(flags: Given, environment: Given, read: Callable[[], Config]) -> Reached:
    """Combine the connection settings; the file of contexts is read only if a context is needed.

    A context counts as a whole: if the address comes from another source, none of its settings apply, so that no token
    is sent to an address for which it was not issued. A context that a flag names overrides the environment, whose
    token then applies only if the environment has no address of its own. Raises `ConfigError`.
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
    """Return the first certificate, and its key, from the same source or from one that overrides it."""
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
