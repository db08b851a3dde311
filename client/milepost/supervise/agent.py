"""The Java agent by which Spark writes down how many rows each batch has read, in any JVM that a command starts.

The agent does nothing in a JVM without Spark. In one with Spark it sets the property `LISTENERS` to its own listener,
which appends a line for each batch to a file (`milepost.supervise.rows` reads it). The sources of its jar are in
``client/agent``; ``tools/rows-agent`` builds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from milepost.supervise.settings import settings

LISTENERS: Final = "spark.sql.streaming.streamingQueryListeners"
_JAR: Final = "rows-agent.jar"
_OWN_CLASSES_FIRST: Final = "spark.driver.userClassPathFirst"
_TAKEN_BY_JAVA: Final = re.compile(r"[ -<>-~]+")
"""Every JVM takes an agent at such a path, whatever its locale is. The first ``=`` would end the path."""


def obstacle(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> str | None:
    """Return why the command must not get the agent with its jar in ``directory``, as a clause for a message; None if
    it may.

    A job that has listeners of its own keeps them, and gets no other: Spark's property is one list. A job whose own
    classes come first may bring another copy of Spark, which would refuse a listener for the copy on the class path,
    and then run no query. A JVM that could not read the path of the jar would not start.
    """
    for key, value, place in settings(command, environment):
        if key == LISTENERS:
            return f"the job has listeners of its own ({place})"
        if key == _OWN_CLASSES_FIRST and value.strip().lower() == "true":
            return f"the job may bring a Spark of its own ({place})"
    if not _TAKEN_BY_JAVA.fullmatch(str(directory)):
        return f"Java takes no agent from {directory}: TMPDIR must have ASCII characters only, and no '='"
    return None


def jar() -> tuple[str, bytes]:
    """Return the name of the agent's jar, and its bytes."""
    return _JAR, resources.files(__package__).joinpath(_JAR).read_bytes()


def option(jar: Path, rows: Path) -> str:
    """Return the option by which Java starts the agent in ``jar``, whose listener appends to the file ``rows``."""
    return f"-javaagent:{jar}={rows}"
