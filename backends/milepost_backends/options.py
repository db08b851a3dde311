"""Parses the options of an address: the part after the question mark of a URL."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl

from milepost_backends.contract import Misconfigured


def parse_options(query: str, known: Collection[str], address: str) -> dict[str, str]:
    """Return the options in ``query`` by their names. Each must be ``known``, given once, and have a value.

    ``address`` says what kind of address it is, for error messages. Raises `Misconfigured`, which never repeats a
    value, since a value may be a password.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise Misconfigured(f"the options of {address} must be name=value, separated by &") from None
    options = dict(pairs)
    if unknown := sorted(set(options) - set(known)):
        raise Misconfigured(f"{', '.join(unknown)} is not an option of {address}; use {', '.join(known)}")
    if len(options) < len(pairs):
        raise Misconfigured(f"an option of {address} is given twice")
    if empty := sorted(name for name, value in options.items() if not value):
        raise Misconfigured(f"the option {', '.join(empty)} of {address} needs a value")
    return options
