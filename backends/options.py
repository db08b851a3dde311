"""Options of an address: what stands behind the question mark of a URL."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl

from backends.contract import Misconfigured


def parse_options(query: str, known: Collection[str], address: str) -> dict[str, str]:
    """Return the options in ``query`` by their names. Each is ``known``, stands there once and has a value.

    ``address`` says what kind of address it is, for errors. Raises `Misconfigured`, which repeats no value, since a
    value may be a password.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise Misconfigured(f"the options of {address} are name=value with & between") from None
    options = dict(pairs)
    if unknown := sorted(set(options) - set(known)):
        raise Misconfigured(f"{', '.join(unknown)} is no option of {address}; known: {', '.join(known)}")
    if len(options) < len(pairs):
        raise Misconfigured(f"an option of {address} stands there twice")
    if empty := sorted(name for name, value in options.items() if not value):
        raise Misconfigured(f"the option {', '.join(empty)} of {address} takes a value")
    return options
