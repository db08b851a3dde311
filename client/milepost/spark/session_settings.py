"""Puts Hadoop settings into a Spark session for as long as jobs are led from it, and takes them out again.

Executors get the settings of a session with each query, and a query keeps the settings with which it was started.
Several jobs may be led from one session: the settings of the job whose query starts next must then be in place. Spark
reports the settings of a session (in its UI and event log), so this module redacts a secret among them.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from milepost.core.checkpoint_location import CREDENTIAL, HEADER, NAME_SERVICES
from milepost.errors import UnsafeQuery
from milepost.spark.driver.calls import describe, within
from milepost.wire import job_epoch_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_REDACTION = "spark.sql.redaction.options.regex"
"""The session's setting that says which settings Spark must redact in its reports."""

_PREPARING_SECONDS = 120.0
_REMOVING_SECONDS = _PREPARING_SECONDS + 30.0
_LOOK_SECONDS = 0.02

_HARMLESS = {
    "dfs.webhdfs.rest-csrf.enabled": ("false",),
    "dfs.webhdfs.rest-csrf.methods-to-ignore": ("GET,OPTIONS,HEAD,TRACE",),
    HEADER: ("X-XSRF-HEADER",),
}
"""Hadoop's default values of settings in a fence. A session with such a value counts as one that has not set it."""


@dataclass
class _Session:
    """A Spark session from which jobs are led: ``before`` has the values of its settings before the first job (None:
    not set), ``leading`` the settings of the led jobs, newest last.
    """

    before: dict[str, str | None] = field(default_factory=dict)
    leading: list[SessionSettings] = field(default_factory=list)


_sessions: dict[str, _Session] = {}
_lock = threading.RLock()


class SessionSettings:
    """The settings of one job that is led from ``spark``. `in_place` makes it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._key = str(spark._jsparkSession.sessionUUID())
        self._settings: dict[str, str] = {}
        self._removed = False

    def put(self, settings: Mapping[str, str], fence: Mapping[str, str]) -> None:
        """Make ``settings`` the job's settings, and put them in place.

        Raises `UnsafeQuery` if the session or the application has a different value for a setting in ``fence``: other
        code may need that value. By the settings in ``fence``, requests carry the job's epoch.
        """
        with _lock:
            conf = check_free(self._spark, fence)
            self._settings = dict(settings)
            if NAME_SERVICES in settings:
                known = [name for name in (conf.get(NAME_SERVICES) or "").split(",") if name.strip()]
                self._settings[NAME_SERVICES] = ",".join(dict.fromkeys([*known, settings[NAME_SERVICES]]))
            session = _sessions.setdefault(self._key, _Session())
            if self not in session.leading:
                session.leading.append(self)
            if CREDENTIAL in settings:
                before = session.before.get(_REDACTION) or self._spark.conf.get(_REDACTION)
                self._settings[_REDACTION] = f"(?:{before})|{re.escape(CREDENTIAL)}"
            for key in self._settings:
                if key not in session.before:
                    session.before[key] = self._spark.conf.get(key, None)
            self.place()

    def place(self) -> None:
        """Put the job's settings in place again after another job's; settings that only the other job has, such as the
        credential for its files, are removed.

        Raises `UnsafeQuery` once the job's settings were taken out.
        """
        with _lock:
            if self._removed:
                raise UnsafeQuery(
                    "lead's block is left, and the job's epoch given up: start a query of this job inside of the block"
                )
            session = _sessions.get(self._key)
            self._set({**(session.before if session is not None else {}), **self._settings})

    def remove(self) -> None:
        """Take the job's settings out of the session: put those of another job that is still led in place, or else
        restore the values from before the first job.
        """
        with _lock:
            self._removed = True
            session = _sessions.get(self._key)
            if session is None or self not in session.leading:
                return
            session.leading.remove(self)
            if session.leading:
                session.leading[-1].place()
                return
            del _sessions[self._key]
            self._set(session.before)

    def _set(self, settings: Mapping[str, str | None]) -> None:
        """Set these settings of the session, and unset those whose value is None. First waits for starting queries that
        need the old values.
        """
        changed = {key: value for key, value in settings.items() if self._spark.conf.get(key, None) != value}
        if changed:
            self._wait_for_sources()
        for key, value in changed.items():
            if value is None:
                self._spark.conf.unset(key)
            else:
                self._spark.conf.set(key, value)

    def _wait_for_sources(self) -> None:
        """Wait until every query of the session has prepared its sources.

        Spark prepares sources only after ``start`` has returned. A file source then copies the settings of the session;
        with the epoch of another job among them, the service would refuse its writes to the source's log.
        """
        until = time.monotonic() + _PREPARING_SECONDS
        while preparing := [query for query in self._spark.streams.active if _prepares(query)]:
            if time.monotonic() > until:
                names = ", ".join(query.name or str(query.id) for query in preparing)
                _log.warning(
                    "queries have prepared their sources for %s s and are waited for no longer: %s; should one of them "
                    "be refused because of another job's epoch, start it again",
                    _PREPARING_SECONDS,
                    names,
                )
                return
            time.sleep(_LOOK_SECONDS)


def _prepares(query: StreamingQuery) -> bool:
    return bool(query.isActive and query.status["message"].startswith("Initializing"))


@contextmanager
def in_place(spark: SparkSession) -> Iterator[SessionSettings]:
    """Yield the `SessionSettings` of a job, and take the settings out of the session at the end of the block."""
    settings = SessionSettings(spark)
    try:
        yield settings
    finally:
        try:
            # Not called in this thread, since an exception may have cut one of the thread's calls to the JVM short.
            within(_REMOVING_SECONDS, settings.remove)
        except (Py4JError, ConnectionError, TimeoutError) as error:
            _log.warning(
                "Spark does not answer any more, so the settings of its session stay as they are: %s", describe(error)
            )


def default_file_system(spark: SparkSession) -> str:
    """Return the URI of the file system that Spark uses for paths without a scheme (``fs.defaultFS``)."""
    return str(spark._jsparkSession.sessionState().newHadoopConf().get("fs.defaultFS"))


def check_free(spark: SparkSession, fence: Mapping[str, str]) -> Any:
    """Return the session's Hadoop configuration. Raises `UnsafeQuery` if it has different values for the settings in
    ``fence``, by which requests carry the job's epoch.
    """
    conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
    for key, wanted in fence.items():
        found = conf.get(key)
        if found is None or found == wanted or found in _HARMLESS.get(key, ()):
            continue
        if key == HEADER and job_epoch_of(found) is not None:
            continue  # the value belongs to another job that is led from this session
        raise UnsafeQuery(
            f"{key} is set to {found!r}, but the job's epoch reaches the service by way of this setting, which has to "
            f"be {wanted!r}: leave it out of the session's settings and of Spark's (spark.hadoop.{key})"
        )
    return conf
