"""The audit log: one line for each administrative act and for each attempt at one, who made it and what came of it.

It is the logger ``milepost.audit``, which is shown at every level of the log. Of a token it has the name.
"""

from __future__ import annotations

import logging

log = logging.getLogger("milepost.audit")

DONE = "done"
_NOBODY = "-"
_MOST = 300
"""So many characters of each value are told: strangers choose some of them, and each attempt makes a line."""


def note(
    audit_name: str, on: str, *, by: str = "", outcome: str = DONE, request_id: str = "", detail: str = ""
) -> None:
    """Add a line: what was done, on what, by whom, with which outcome, by which request."""
    members = {"act": audit_name, "on": on, "by": by or _NOBODY, "outcome": outcome, "request": request_id or _NOBODY}
    if detail:
        members["detail"] = detail
    log.info("%s", " ".join(f"{name}={_value(text)}" for name, text in members.items()))


def _value(text: str) -> str:
    """Return a value as it stands, or in quotes if it is more than one plain word, so that no value makes others."""
    text = text[:_MOST]
    if text and text.isascii() and text.isprintable() and not set(text) & set(' "=\\'):
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'
