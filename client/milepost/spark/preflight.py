"""Preflight checks: mistakes that can be seen before a query starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from milepost.errors import UnsafeQuery

RETAINED = "spark.sql.streaming.minBatchesToRetain"
LEAST_RETAINED = 2


@dataclass(frozen=True)
class ConfDifference:
    """A setting in the query's offset log that differs from the session's; Spark uses the one in the log."""

    key: str
    logged: str
    session: str


def check_retained(batches: str | None) -> None:
    """Raise `UnsafeQuery` if Spark's maintenance could delete state that the next driver needs."""
    if batches is not None and int(batches) < LEAST_RETAINED:
        raise UnsafeQuery(
            f"{RETAINED} is {batches}: a driver that dies before Spark has noted its batch as done leaves that batch "
            "to the next one, and Spark's maintenance could have deleted the state before it; set it to "
            f"{LEAST_RETAINED} or more"
        )


def check_clean_source(options: Mapping[str, str], source: str) -> None:
    """Raise `UnsafeQuery` if a file source deletes or archives input that a replay may still need."""
    for name, value in options.items():
        if name.lower() == "cleansource" and value.lower() != "off":
            raise UnsafeQuery(
                f"the source {source} has cleanSource={value}: Spark removes a batch's input before the next driver "
                "can know that it needs no replay; leave it off and remove old input yourself"
            )


def conf_differences(offsets: bytes, session: Callable[[str], str | None]) -> list[ConfDifference]:
    """Return the settings in a batch's offset log that differ from those of the session.

    ``session`` returns the value in force for a key, or None.
    """
    lines = offsets.decode().splitlines()
    if len(lines) < 2:
        return []
    try:
        logged = json.loads(lines[1]).get("conf", {})
    except (ValueError, AttributeError):
        return []
    found = []
    for key, value in sorted(logged.items()):
        now = session(key)
        if now is not None and now != value:
            found.append(ConfDifference(key, str(value), now))
    return found
