"""Makes calls to Spark's JVM that neither a hanging JVM nor an interrupted thread can hold up.

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
"""The beginning of a stack trace."""


def within(seconds: float, call: Callable[[], _T]) -> _T:
    """Make a call in a thread of its own, and return or raise what it does. Raises TimeoutError after ``seconds``."""
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
    """Log that Spark does not answer any more, and raise nothing: its queries have ended, and no caller waits."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        _log.warning("Spark does not answer any more, leaving the query as it is: %s", describe(error))


def describe(error: BaseException) -> str:
    """Return in one line what an error says, without the stack trace of Java or Python that it has in its text.

    An error of Java's has to be asked for its text, where there may be no JVM any more; then it is the error's name.
    """
    try:
        said = str(error)
    except (Py4JError, ConnectionError):
        return type(error).__name__
    return " ".join(_TRACE.split(said, maxsplit=1)[0].split())


def forget_connection(spark: SparkSession) -> None:
    """Let this thread's next call to the JVM go over a new connection; this waits for nothing.

    A call that is left by an exception, as one of a signal handler's, has not read its answer. The next call over the
    same connection would wait for the JVM to end the first one, and then take that answer for its own.
    """
    client: Any = getattr(spark.sparkContext._gateway, "_gateway_client", None)
    find = getattr(client, "get_thread_connection", None)  # other clients of Py4J's keep no connection for a thread
    connection = find() if find is not None else None
    if connection is not None and connection.socket is not None:
        # Closed by its number: to close the object could wait for the lock of the reader that the call is in.
        left, connection.socket = connection.socket, None
        os.close(left.detach())
