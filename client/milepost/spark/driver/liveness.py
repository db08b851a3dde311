"""Checks whether Spark's JVM still answers, over a separate connection: a call to a JVM that hangs would block its
thread for ever.

The connection costs the JVM one thread. At most one question is open at a time, and no thread of this process waits for
the answer.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j import protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_CONNECT_SECONDS = 1.0
_END_SECONDS = 10.0
"""The seconds to wait for the end of a JVM whose SparkContext is stopped."""
_END_POLL_SECONDS = 0.1
_REFUSALS = 3
"""The number of failed connections in a row, without an answer in between, after which the JVM counts as gone."""
_UNDERSTOOD = (protocol.RETURN_MESSAGE + protocol.SUCCESS).encode()
_QUESTION = (
    f"{protocol.CALL_COMMAND_NAME}{protocol.STATIC_PREFIX}java.lang.System\nnanoTime\n{protocol.END_COMMAND_PART}"
)
_GATEWAY_OF_PARENT = "PYSPARK_GATEWAY_PORT"


class JvmProbe:
    """Asks the JVM for its clock at regular intervals, to find out whether the JVM still answers.

    ``silent`` is the number of seconds for which a question has been open. Time during which this process was stopped,
    or the machine slept, does not count. ``gone`` says that the JVM no longer accepts connections.
    """

    def __init__(self, gateway: Any, every: float) -> None:
        parameters = gateway.gateway_parameters
        self._address = (str(parameters.address), int(parameters.port))
        self._token: str | None = parameters.auth_token
        self._ssl = parameters.ssl_context
        self._every = every
        self._rest = 0.0
        self._refusals = 0
        self._socket: socket.socket | None = None
        self._received = b""
        self._open = 0  # questions without an answer; the login on a new connection counts as one
        self.silent = 0.0
        self.gone = False

    def look(self, seconds: float) -> None:
        """Receive the answer to the open question or, if none is open, send the next one when it is due. ``seconds``
        have passed since the last call. This does not block.
        """
        try:
            if self._open:
                self._receive()
            else:
                self._rest -= seconds
            if self._open:
                self.silent += seconds
            elif self._rest <= 0:
                self._ask()
        except OSError as error:
            _log.info("the check whether Spark's JVM is alive failed, connecting again: %s", error)
            self.close()
            self._rest = 0.0
            # Only a refused or reset connection suggests that the JVM has ended; a timeout, or a lack of file
            # descriptors, does not.
            self._refusals += isinstance(error, ConnectionError)
            self.silent += seconds
            self.gone = self._refusals >= _REFUSALS

    def close(self) -> None:
        """Close the connection."""
        connection, self._socket = self._socket, None
        self._open, self._received = 0, b""
        if connection is not None:
            connection.close()

    def _ask(self) -> None:
        question = _QUESTION
        if self._socket is None:
            self._socket = self._connected()
            if self._token:
                question = f"{protocol.AUTH_COMMAND_NAME}\n{self._token}\n{question}"
                self._open += 1
        self._socket.sendall(question.encode())
        self._open += 1

    def _connected(self) -> socket.socket:
        connection = socket.create_connection(self._address, _CONNECT_SECONDS)
        if self._ssl is not None:
            connection = self._ssl.wrap_socket(connection, server_hostname=self._address[0])
        connection.settimeout(_CONNECT_SECONDS)
        return connection

    def _receive(self) -> None:
        assert self._socket is not None
        self._socket.settimeout(0.001)
        try:
            received = self._socket.recv(4096)
        except TimeoutError:
            return
        finally:
            self._socket.settimeout(_CONNECT_SECONDS)
        if not received:
            raise ConnectionResetError("the JVM closed the connection")
        *lines, self._received = (self._received + received).split(b"\n")
        self._open -= len(lines)
        if lines and not lines[0].startswith(_UNDERSTOOD):
            _log.warning("Spark's JVM refuses the check whether it is alive, so it is not watched: %r", lines[0][:80])
            self._every = math.inf
            self.close()
        if self._open <= 0:
            self._open, self._refusals, self.silent, self._rest = 0, 0, 0.0, self._every


def jvm_ends(spark: SparkSession, *, is_stopping: bool) -> bool:
    """Return whether Spark's JVM has ended or is shutting down. A shutdown stops the SparkContext first.

    During a shutdown, queries may fail with any error. So if the SparkContext is stopped, this waits some seconds for
    the JVM to end; if the JVM does not end, the program itself stopped the context. If the driver ``is_stopping``, a
    stopped SparkContext is enough: the shutdown of a JVM may take longer on a busy machine.
    """
    until = time.monotonic() + _END_SECONDS
    while not _nobody_listens(spark):
        if not context_is_stopped(spark):
            return False
        if is_stopping:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(_END_POLL_SECONDS)
    return True


def context_is_stopped(spark: SparkSession) -> bool:
    """Return whether the SparkContext is stopped or its JVM has ended. If the JVM does not answer in time, the context
    counts as running.
    """
    context: Any = spark.sparkContext
    found: list[bool] = []

    def ask() -> None:
        try:
            java = context._jsc  # None after ``spark.stop()``
            found.append(java is None or bool(java.sc().isStopped()))
        except (protocol.Py4JError, ConnectionError):
            found.append(True)

    asking = threading.Thread(target=ask, name="milepost-is-stopped", daemon=True)
    asking.start()
    asking.join(_CONNECT_SECONDS)
    return found == [True]


def _nobody_listens(spark: SparkSession) -> bool:
    gateway: Any = spark.sparkContext._gateway
    parameters = gateway.gateway_parameters
    try:
        socket.create_connection((str(parameters.address), int(parameters.port)), _CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def end_jvm(spark: SparkSession) -> None:
    """Kill Spark's JVM, which does not answer: every hanging call to it then fails, and this process can end.

    If this process started the JVM, the JVM is its child; if the JVM started first (``spark-submit``), it is the
    parent.
    """
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
    elif sys.platform != "win32" and _GATEWAY_OF_PARENT in os.environ and _is_java(os.getppid()):
        os.kill(os.getppid(), signal.SIGKILL)
    else:
        _log.warning("Spark's JVM does not answer, but is not killed: it was not started together with this process")


def _is_java(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip() == "java"
    except OSError:
        return False
