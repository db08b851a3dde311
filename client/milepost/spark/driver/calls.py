"""Makes calls to Spark's JVM that return even if the JVM hangs, or if an exception cut the thread's previous call
short.

Py4J gives each thread a connection of its own, on which one call is made at a time.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_TRACE = re.compile(r"^(?:\s+at |Traceback |JVM stacktrace:)", re.MULTILINE)
"""The pattern for the beginning of a stack trace."""


def within(seconds: float, call: Callable[[], _T]) -> _T:
    """Call ``call`` in a separate thread, and return its result or raise its exception. Raises TimeoutError if it takes
    longer than ``seconds``.
    """
    returned: list[_T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            raised.append(error)

    thread = threading.Thread(target=run, name="milepost-call", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not returned:
        raise TimeoutError(f"no answer in {seconds:g} s")
    return returned[0]


@contextmanager
def spark_may_be_gone() -> Iterator[None]:
    """Log an error of the connection to Spark's JVM instead of raising it. Use this for steps at the end of a job,
    which are needless once the JVM has ended.
    """
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        _log.warning("Spark does not answer any more, leaving the query as it is: %s", describe(error))


def describe(error: BaseException) -> str:
    """Return an error's message as one line, without the stack trace of Java or Python that its text contains.

    The text of a Java error must be requested from the JVM; if the JVM is gone, this returns the error's class name.
    """
    try:
        said = str(error)
    except (Py4JError, ConnectionError):
        return type(error).__name__
    return " ".join(_TRACE.split(said, maxsplit=1)[0].split())


def forget_connection(spark: SparkSession) -> None:
    """Let this thread's next call to the JVM use a new connection; this call does not block.

    An exception that ends a call early, such as one from a signal handler, leaves the answer unread. The next call over
    the same connection would read that answer as its own.
    """
    client: Any = getattr(spark.sparkContext._gateway, "_gateway_client", None)
    find = getattr(client, "get_thread_connection", None)  # only Py4J's pinned-thread client has it
    connection = find() if find is not None else None
    if connection is not None and connection.socket is not None:
        # Only the file descriptor is closed: closing the connection object could wait for a lock that the interrupted
        # call holds.
        left, connection.socket = connection.socket, None
        os.close(left.detach())
