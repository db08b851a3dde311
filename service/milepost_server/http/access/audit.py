"""The audit log: one line for each administrative operation and for each attempt at one, with its caller and its
outcome.

Its logger, ``milepost.audit``, is shown at every level of the log. A line has the name of a token, never the token.
"""

from __future__ import annotations

import logging

log = logging.getLogger("milepost.audit")

DONE = "done"
_NOBODY = "-"
_MOST = 300
"""The most characters of each value in a line, since clients choose some of the values and could fill the disk."""


def note(
    audit_name: str, on: str, *, by: str = "", outcome: str = DONE, request_id: str = "", detail: str = ""
) -> None:
    """Add a line: the operation ``audit_name``, its object ``on``, its caller ``by``, its outcome, the id of its
    request, and any further detail.
    """
    members = {"act": audit_name, "on": on, "by": by or _NOBODY, "outcome": outcome, "request": request_id or _NOBODY}
    if detail:
        members["detail"] = detail
    log.info("%s", " ".join(f"{name}={_value(text)}" for name, text in members.items()))


def _value(text: str) -> str:
    """Return a value unchanged, or in quotes if it is not one plain word. So no value can pass for another field of the
    line.
    """
    text = text[:_MOST]
    if text and text.isascii() and text.isprintable() and not set(text) & set(' "=\\'):
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'
