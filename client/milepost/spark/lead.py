"""`lead`: wait for the epoch of a job, take the job over, yield it, and undo all steps in reverse order."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from milepost.client import Client
from milepost.core.calls.credentials import Token
from milepost.core.calls.request import checked_name
from milepost.core.checkpoint_location import checkpoint_location
from milepost.drivers.connections import Verify
from milepost.drivers.environment import ConnectionArguments, File, this_process
from milepost.errors import SessionLost, UnsafeQuery
from milepost.integrity import IfDamaged
from milepost.spark.driver.driver import Driver
from milepost.spark.driver.liveness import context_is_stopped
from milepost.spark.driver.sigterm import on_sigterm
from milepost.spark.driver.watch import Watch
from milepost.spark.guard import RETAINED, check_retained
from milepost.spark.job import Job
from milepost.spark.session_settings import check_free, in_place
from milepost.spark.takeover import take_over
from milepost.spark.warming import warm_up
from milepost.standby import Leadership, Standby

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_led: dict[tuple[str, str], str] = {}
_led_lock = threading.Lock()


@contextmanager
def lead(
    spark: SparkSession,
    url: str | Sequence[str] | None = None,
    job: str = "",
    *,
    authority: str | None = None,
    holder: str | None = None,
    wait: float | None = None,
    must_exist: bool = False,
    if_stopped: bool = False,
    ttl: float = 15.0,
    timeout: float = 30.0,
    outage_timeout: float = 120.0,
    grace: float = 60.0,
    jvm_timeout: float | None = 60.0,
    batch_timeout: float | None = None,
    max_entries: int | None = 100,
    if_damaged: Literal["refuse", "fall-back", "go-on"] = "fall-back",
    digests: bool = False,
    token: Token | None = None,
    token_file: File | None = None,
    token_url: str | None = None,
    verify: Verify | None = None,
    cert: File | None = None,
    key: File | None = None,
) -> Iterator[Job]:
    """Wait until this driver leads ``job``, put the settings of its epoch into the session, and yield the `Job`.

    Standbys wait here, at most ``wait`` seconds (None: for ever), through outages and lost sessions. Leaving the block
    stops the query, takes the settings out of the session and resigns. In the main thread, SIGTERM stops the query, and
    ends the program with status 143 at the end of the block, or at once if there is no query yet; `Job.stopped` is true
    from the stop on. ``url`` is the address of the service, or several; Spark's executors must reach it as well.
    Without ``url`` the environment describes the service, as for `milepost.Client`; ``token``, ``token_file``,
    ``verify``, ``cert`` and ``key`` are also as there. Others see ``holder`` as the name of the epoch's holder. With
    ``must_exist``, the driver refuses a service that does not know the job (`JobUnknown`), instead of beginning the job
    there. A job that a person has stopped is waited for as if another driver led it, until it is started; with
    ``if_stopped``, this driver may lead it, and the job stays stopped. If a person wishes that this driver stops or
    hands over (`milepost jobs stop`), it ends as by SIGTERM.

    If the service uses tokens, Spark gets a credential for this job's files under this driver's epoch. With it Spark
    gets tokens at ``token_url``, by default at the first of the addresses.

    ``authority`` is the authority of the job's checkpoint location, ``webhdfs://<authority>/jobs/<job>/…``. It never
    changes: the first driver chooses it, by default the host and port of a single server or a name for several servers,
    and later drivers use the same.

    ``ttl`` is the length of the session in seconds: a driver that freezes is replaced after this time, and a driver
    that cannot reach the service for this long ends. ``timeout`` (seconds) bounds one call to the service, beside the
    time for its bytes; ``outage_timeout`` bounds how long a batch waits for an outage of the service to end, within
    ``ttl``. ``grace`` (seconds) bounds how long stopping waits for the batch that is being published; a batch that
    takes longer is interrupted, and the next driver runs it again.

    A driver that is alive but makes no progress resigns the epoch: when Spark's JVM has not answered for
    ``jvm_timeout`` seconds (`JvmLost`; the JVM is killed, so that calls which wait for it end), and when a batch has
    taken ``batch_timeout`` seconds (`BatchTimeout`); None turns either off. A batch that drivers began ``max_entries``
    times and never finished is not begun again (`NoProgress`; with None it always is). A driver that loses its session
    because Python stood still in a batch that was begun three times also raises `NoProgress`, which names a ``ttl``
    that would outlast the standstill.

    Before the job continues, the driver checks that all its files exist in full size; with ``digests``, and if a batch
    was begun twice and never finished, it also checks each byte. If files are damaged, the driver falls back to the
    newest snapshot that is whole and safe, and reports this in the log and in `Job.recovery`; ``if_damaged`` may also
    let it refuse, or continue anyway as long as no query needs the damaged files.

    Raises `InvalidName` for a name that no job can have, `EpochHeld` when the wait has ended, `UnsafeQuery`,
    `WrongCheckpoint`, `NoSafeCheckpoint`, `CheckpointDamaged`, `InputMissing`, `RecordUnreadable`, and the errors of
    `milepost.Client`.
    """
    for option, least in (("jvm_timeout", jvm_timeout), ("batch_timeout", batch_timeout), ("max_entries", max_entries)):
        if least is not None and least <= 0:
            raise ValueError(f"{option} must be more than 0, or None")
    chosen = IfDamaged(if_damaged)
    name = checked_name(job, "job")  # a job's handles and files are in a store of the same name
    connection = ConnectionArguments(url=url, token=token, token_file=token_file, verify=verify, cert=cert, key=key)
    with Client(**connection, timeout=timeout) as client:
        _check_session(spark, checkpoint_location(client.addresses, name, 0, authority=authority).fence)
        who = holder or f"{spark.sparkContext.applicationId}@{socket.gethostname()}:{os.getpid()}"
        process = this_process(spark.sparkContext.applicationId, spark.sparkContext.uiWebUrl)
        prepare = partial(warm_up, spark, name)
        driver = Driver(spark)
        with (
            _alone(spark, name),
            on_sigterm(driver.stop, driver.running, driver.forget_calls) as ending,
            Standby(
                client,
                who,
                name,
                ttl,
                wait,
                driver.abandon,
                prepare,
                process,
                lambda _: ending.ask(),
                if_stopped=if_stopped,
            ) as standby,
            Watch(
                spark, jvm_timeout, batch_timeout, driver.batch, driver.overdue, partial(driver.fail, standby.cancel)
            ),
            driver.raising_cause(),
            in_place(spark) as settings,
        ):

            def begin(leadership: Leadership) -> Job:
                taken = take_over(
                    leadership,
                    spark,
                    name,
                    settings,
                    authority=authority,
                    token_url=token_url,
                    must_exist=must_exist,
                    outage_timeout=outage_timeout,
                    if_damaged=chosen,
                    digests=digests,
                    max_entries=max_entries,
                )
                made = Job(spark, name, taken, settings, connection, grace, max_entries)
                driver.lead(made)
                try:
                    # If the session was lost before driver.lead(made), the driver had no job to stop.
                    taken.session.raise_if_lost()
                except SessionLost:
                    made.close()
                    raise
                return made

            led = standby.take_over(begin)
            try:
                yield led
            finally:
                led.close()
            led.raise_end()


@contextmanager
def _alone(spark: SparkSession, name: str) -> Iterator[None]:
    """Refuse a second `lead` of the same job in one Spark application: Spark would end both runs of the query. Also
    refuse a job whose name differs from that of a led job only in case, because the service could not tell the epochs
    of the two apart.
    """
    # Each write has the epoch in a header whose name contains the job's name. Header names ignore case, so two jobs
    # whose names differ only in case would share a header.
    key = (str(spark.sparkContext.applicationId), name.lower())
    with _led_lock:
        other = _led.get(key, name)
        if other != name:
            raise UnsafeQuery(
                f"this Spark application leads {other!r}, and the service cannot keep the writes of {name!r} apart "
                "from its own: choose names that differ in more than case"
            )
        if key in _led:
            raise UnsafeQuery(
                f"this Spark application leads {name!r} already: a standby is another application, "
                "and a restart leaves the block of the first lead() before it enters another"
            )
        _led[key] = name
    try:
        yield
    finally:
        with _led_lock:
            del _led[key]


def _check_session(spark: SparkSession, fence: Mapping[str, str]) -> None:
    """Raise `UnsafeQuery` if no job can be led from this Spark session, because of its settings or because it is
    stopped.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise UnsafeQuery(
            "Spark Connect runs foreachBatch on its server, where this driver does not see it: use a classic session"
        )
    if context_is_stopped(spark):
        raise UnsafeQuery(
            "this Spark session is stopped, or its JVM has ended: get another by SparkSession.builder.getOrCreate()"
        )
    check_retained(spark.conf.get(RETAINED))
    check_free(spark, fence)
