"""The Java agent that `milepost run` hands to every JVM that a command starts (`milepost.jvm`).

The agent does nothing in a JVM without Spark. In one with Spark it sets two properties: `LISTENERS` to its own
listener, which appends a line for each batch to a file (`milepost.supervise.rows` reads it), and `FILE_MANAGER` to
Milepost's manager of checkpoint files. It changes no property that is set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from milepost.supervise.settings import settings

LISTENERS: Final = "spark.sql.streaming.streamingQueryListeners"
_OWN_CLASSES_FIRST: Final = "spark.driver.userClassPathFirst"
_TAKEN_BY_JAVA: Final = re.compile(r"[ -<>-~]+")
"""Every JVM takes an agent at such a path, whatever its locale is. The first ``=`` would end the path."""


def obstacle(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> str | None:
    """Return why the command must not get the agent with its jar in ``directory``, as a clause for a message; None if
    it may.

    A job whose own classes come first may bring another copy of Spark. That one would refuse classes for the copy on
    the class path, and then run no query. A JVM that could not read the path of the jar would not start.
    """
    for key, value, place in settings(command, environment):
        if key == _OWN_CLASSES_FIRST and value.strip().lower() == "true":
            return f"the job may bring a Spark of its own ({place})"
    if not _TAKEN_BY_JAVA.fullmatch(str(directory)):
        return f"Java takes no agent from {directory}: TMPDIR must have ASCII characters only, and no '='"
    return None


def listeners(command: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return where the command sets listeners of its own; None if it does not. A job that has some keeps them, and gets
    no other: Spark's property is one list.
    """
    return next((place for key, _, place in settings(command, environment) if key == LISTENERS), None)


def option(jar: Path, rows: Path | None) -> str:
    """Return the option by which Java starts the agent in ``jar``, whose listener appends to the file ``rows``; None
    for no listener.
    """
    return f"-javaagent:{jar}" if rows is None else f"-javaagent:{jar}={rows}"
