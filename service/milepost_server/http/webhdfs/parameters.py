"""Read the parameters of a WebHDFS request as a NameNode does: a value that is none is refused, and not left out."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import QueryParams

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.rules.requests import OntoExisting

_ONTO: Final = {"NONE": OntoExisting.REFUSE, "TO_TRASH": OntoExisting.REFUSE, "OVERWRITE": OntoExisting.REPLACE}
_HINTS: Final = frozenset(
    {
        "SYNC_BLOCK",
        "LAZY_PERSIST",
        "NEW_BLOCK",
        "NO_LOCAL_WRITE",
        "SHOULD_REPLICATE",
        "IGNORE_CLIENT_LOCALITY",
        "NO_LOCAL_RACK",
    }
)
"""Flags of CREATE that say how HDFS is to place blocks, which means nothing here."""


def text(query: QueryParams, name: str) -> str | None:
    """Return the value of a parameter; None if it is absent."""
    values = query.getlist(name)
    if len(values) > 1:
        raise problem(Code.INVALID_REQUEST, f"the parameter {name} appears {len(values)} times")
    return values[0] if values else None


def flag(query: QueryParams, name: str, *, absent: bool = False) -> bool:
    """Return a flag, whose case does not matter."""
    value = text(query, name)
    if value is None:
        return absent
    if value.lower() not in ("true", "false"):
        raise problem(Code.INVALID_REQUEST, f"{name} takes true or false, not {value[:20]!r}")
    return value.lower() == "true"


def number(query: QueryParams, name: str) -> int | None:
    """Return a whole number; None if it is absent, or ``null``, as Hadoop writes that."""
    value = text(query, name)
    if value in (None, "null"):
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise problem(Code.INVALID_REQUEST, f"{name} takes a whole number, not {value[:20]!r}")
    return int(value)


def replaces(query: QueryParams) -> bool:
    """Return whether CREATE may replace a file: so ``overwrite`` says, or the set of flags in ``createflag``."""
    overwrite, flags = flag(query, "overwrite"), _set(query, "createflag")
    unknown = flags - _HINTS - {"CREATE", "OVERWRITE", "APPEND"}
    if unknown:
        raise problem(Code.INVALID_REQUEST, f"createflag does not know {min(unknown)[:20]!r}")
    if flags and ("APPEND" in flags or "CREATE" not in flags):
        detail = f"createflag={','.join(sorted(flags))}: a file is created, once, whole, and never changed"
        raise problem(Code.NOT_SUPPORTED, detail)
    return overwrite or "OVERWRITE" in flags


def onto_existing(query: QueryParams) -> OntoExisting:
    """Return what RENAME does about what is at its target. Without options it is Hadoop's first rename."""
    options = _set(query, "renameoptions")
    unknown = options - _ONTO.keys()
    if unknown:
        raise problem(Code.INVALID_REQUEST, f"renameoptions does not know {min(unknown)[:20]!r}")
    if not options:
        return OntoExisting.ANSWER_FALSE
    return OntoExisting.REPLACE if "OVERWRITE" in options else OntoExisting.REFUSE


def destination(query: QueryParams) -> str:
    """Return the path that RENAME leads to."""
    path = text(query, "destination")
    if not path:
        raise problem(
            Code.INVALID_REQUEST, "RENAME takes the new path, from the root, as destination, which is missing"
        )
    if not path.startswith("/"):
        raise problem(Code.INVALID_REQUEST, f"the destination {path[:60]!r} is no path from the root")
    return path


def _set(query: QueryParams, name: str) -> set[str]:
    """Return a set of names, which has commas between them; their case does not matter."""
    return {each.strip().upper() for each in (text(query, name) or "").split(",") if each.strip()}
