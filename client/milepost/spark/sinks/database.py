"""A connection to PostgreSQL by JDBC, in Spark's JVM, with the driver class that Spark itself uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from milepost.errors import SinkFailed
from milepost.spark.driver.calls import describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "org.postgresql.Driver"
IDLE_SECONDS = 30
"""After so long PostgreSQL ends a transaction whose client asks for nothing, so that a driver that is frozen within one
keeps the next driver waiting no longer.
"""


class Database:
    """One connection. Use it in one thread, and only within `transaction`."""

    def __init__(self, connection: Any, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout

    @contextmanager
    def transaction(self, lock_seconds: float | None = None) -> Iterator[None]:
        """Run the block in one transaction: commit it at the end, or roll it back if the block raises.

        The server ends each statement after the timeout of the connection, and a wait for a lock after
        ``lock_seconds``, by default the same.
        """
        try:
            lock = self._timeout if lock_seconds is None else lock_seconds
            self.row(
                "SELECT set_config('statement_timeout', ?, true), set_config('lock_timeout', ?, true), "
                "set_config('idle_in_transaction_session_timeout', ?, true)",
                *(f"{round(seconds * 1000)}ms" for seconds in (self._timeout, lock, IDLE_SECONDS)),
            )
            yield
            self._connection.commit()
        except BaseException:
            self._roll_back()
            raise

    def execute(self, sql: str, *values: Any) -> int:
        """Run a statement, and return the number of rows that it changed."""
        with closing(self._prepared(sql, values)) as statement:
            return int(statement.executeUpdate())

    def row(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """Return the first row that a query finds; None if it finds none."""
        return next(iter(self.rows(sql, *values)), None)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows that a query finds."""
        with closing(self._prepared(sql, values)) as statement:
            found = statement.executeQuery()
            columns = range(1, int(found.getMetaData().getColumnCount()) + 1)
            rows = []
            while found.next():
                rows.append(tuple(found.getObject(column) for column in columns))
            return rows

    def _prepared(self, sql: str, values: tuple[Any, ...]) -> Any:
        statement = self._connection.prepareStatement(sql)
        for number, value in enumerate(values, 1):
            statement.setObject(number, value)
        return statement

    def _roll_back(self) -> None:
        with suppress(Py4JError, ConnectionError):  # gone, and with it the transaction; the block's own error says why
            self._connection.rollback()


@contextmanager
def connected(spark: SparkSession, url: str, properties: Mapping[str, str], timeout: float) -> Iterator[Database]:
    """Connect to the database at ``url`` for the block. Errors of the database, of Spark's writes to it and of the JVM
    leave the block as `SinkFailed`.
    """
    try:
        jvm: Any = spark.sparkContext._jvm
        settings = jvm.java.util.Properties()
        for name, value in properties.items():
            settings.setProperty(name, value)
        connection = _driver(spark).connect(url, settings)
        if connection is None:
            raise SinkFailed(f"{DRIVER} does not know such an address")
        try:
            connection.setAutoCommit(False)
            yield Database(connection, timeout)
        finally:
            _close(connection)
    except (Py4JError, PySparkException, ConnectionError) as error:
        raise SinkFailed(_reason(error)) from error


def _driver(spark: SparkSession) -> Any:
    """Make a driver of the class that the session's jars have: with ``spark.jars`` they are not on the class path."""
    session: Any = spark._jsparkSession
    try:
        found = session.sharedState().jarClassLoader().loadClass(DRIVER)
    except Py4JJavaError as error:
        raise SinkFailed(
            f"Spark has no class {DRIVER}: start it with PostgreSQL's driver, such as --packages "
            "org.postgresql:postgresql:42.7.14"
        ) from error
    return found.getDeclaredConstructor(None).newInstance(None)


def _close(connection: Any) -> None:
    with suppress(Py4JError, ConnectionError):  # it is gone already
        connection.close()


def _reason(error: BaseException) -> str:
    """Return the message of the database, which Spark's own errors have as their cause."""
    if not isinstance(error, Py4JJavaError):
        return describe(error)
    try:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return f"{cause.getClass().getSimpleName()}: {' '.join(str(cause.getMessage()).split())}"
    except (Py4JError, ConnectionError):
        return describe(error)
