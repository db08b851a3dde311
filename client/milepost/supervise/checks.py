"""Refuses, by name, commands whose job would write past the fence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from milepost.core.checkpoint_location import CREDENTIAL, CheckpointLocation
from milepost.supervise.handover import DEFAULT_LOCATION, NAME_SERVICES, REDACTION, SECRET, properties
from milepost.supervise.settings import MODE, REMOTE, settings


def check(command: Sequence[str], environment: Mapping[str, str], location: CheckpointLocation) -> None:
    """Raise ValueError, which says what to do, if the job would not run here or not with the settings of ``location``.

    What counts is the command line, the variables that Spark and Java read, the files of properties that these name,
    and Spark's own file of defaults. What a program sets itself, nobody sees from here.
    """
    ours = properties(location, environment)
    for key, value, place in settings(command, environment):
        if key == MODE and value == "cluster":
            raise ValueError(
                f"{place}: the driver has to run here, where it can be ended; run `milepost run` itself on the cluster"
            )
        if key == REMOTE and value.startswith("sc://"):
            raise ValueError(f"{place}: the queries run in the Connect server, so run that server by `milepost run`")
        if key == DEFAULT_LOCATION and (value == location.url or value.startswith(f"{location.url}/")):
            continue
        if key == NAME_SERVICES and set(ours.get(key, "").split(",")) <= set(value.split(",")):
            continue  # a job may have more of them
        if key == REDACTION and key in ours:
            if not all(_hides(value, name) for name in (SECRET, CREDENTIAL)):
                raise ValueError(
                    f"{place}: {key} must match {SECRET} as well as {CREDENTIAL}, by which names Spark would show a "
                    "secret otherwise: add '|credential' to it"
                )
            continue
        if key in ours and value != ours[key]:
            raise ValueError(f"{place}: {key} is set by `milepost run`, to {ours[key]!r}; leave it out")


def _hides(expression: str, name: str) -> bool:
    """Return whether Java's regular expression finds a name, as far as Python reads it in the same way."""
    try:
        return re.search(expression, name) is not None
    except re.error:
        return False
