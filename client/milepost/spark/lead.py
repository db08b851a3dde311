"""Leads a job: waits for the epoch, takes the job over, yields it, and gives all of it up in reverse order."""

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
from milepost.drivers.environment import ConnectionArguments, File
from milepost.errors import UnsafeQuery
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
from milepost.standby import Standby

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
    """Wait until this driver leads ``job``, put the settings of its epoch into the session, and yield the
    `Job`.

    Standbys wait here, at most ``wait`` seconds (None: for ever), through outages and lost sessions. Leaving the block
    stops the query, takes the settings out of the session and resigns. SIGTERM stops the query if this runs in the main
    thread, and at the end of the block, or at once if there is no query yet, it ends the program with status 143:
    `Job.stopped` says so before. ``url`` is the address of the service, or
    several; Spark's executors have to reach it as well. Without it the environment says where the service is, as to
    `milepost.Client`, from which ``token``, ``token_file``, ``verify``, ``cert`` and ``key`` are known as well.
    ``holder`` is the name that others see. With ``must_exist``, a service that does not know the job is refused
    (`JobUnknown`), instead of beginning the job there.

    Where the service has tokens, Spark is given a credential for this job's files under this driver's epoch. With it
    Spark gets itself tokens at ``token_url``, by default at the first of the addresses.

    ``authority`` is what the job's checkpoint location begins with, ``webhdfs://<authority>/jobs/<job>/…``. It never
    changes: the first driver chooses it, by default the host and port of a lone server and a name for several, and the
    others follow.

    ``ttl`` is the length of the session in seconds: a driver that freezes is replaced after it, and one that cannot
    reach the service for so long ends. ``timeout`` (seconds) bounds one call to the service, beside the time for its
    bytes; ``outage_timeout`` bounds how long a batch waits for an outage of the service to end, within ``ttl``.
    ``grace`` (seconds) bounds how long stopping waits for the batch that is being published; a batch that takes longer
    is interrupted, and the next driver runs it again.

    A driver that is alive but makes no progress gives up the epoch: when Spark's JVM has not answered for
    ``jvm_timeout`` seconds (`JvmLost`; the JVM is killed, so that calls which wait for it end), and when a batch has
    taken ``batch_timeout`` seconds (`BatchTimeout`); None turns either off. A batch that drivers began ``max_entries``
    times and never finished is not begun again (`NoProgress`; with None it always is). A driver that loses its session
    because Python stood still in a batch that was begun three times says so with `NoProgress`, too, and which ``ttl``
    outlasts that.

    Before the job goes on, it is looked whether the bytes of its files are all there, in their full size; with
    ``digests``, and where a batch was begun twice and never finished, whether each is right. If some are not, the
    driver falls back to the newest snapshot that is whole and safe, and says so in the log and in `Job.recovery`;
    ``if_damaged`` may also let it refuse, or go on all the same, as long as no query needs what is damaged.

    Raises `InvalidName` for a name that no job can have, `EpochHeld` when the wait has ended, `UnsafeQuery`,
    `WrongCheckpoint`, `NoSafeCheckpoint`, `CheckpointDamaged`, `InputMissing`, `RecordUnreadable`, and the
    errors of `milepost.Client`.
    """
    for option, least in (("jvm_timeout", jvm_timeout), ("batch_timeout", batch_timeout), ("max_entries", max_entries)):
        if least is not None and least <= 0:
            raise ValueError(f"{option} must be more than 0, or None")
    chosen = IfDamaged(if_damaged)
    name = checked_name(job, "job")  # its handles and files are in the store of its name
    connection = ConnectionArguments(url=url, token=token, token_file=token_file, verify=verify, cert=cert, key=key)
    with Client(**connection, timeout=timeout) as client:
        urls = client.addresses
        _check_session(spark, checkpoint_location(urls, name, 0, authority=authority).fence)
        who = holder or f"{spark.sparkContext.applicationId}@{socket.gethostname()}:{os.getpid()}"
        driver = Driver(spark)
        with (
            _alone(spark, name),
            on_sigterm(driver.stop, driver.running, driver.forget_calls),
            Standby(client, who, name, ttl, wait, driver.abandon, partial(warm_up, spark, urls, name)) as standby,
            Watch(
                spark, jvm_timeout, batch_timeout, driver.batch, driver.overdue, partial(driver.fail, standby.cancel)
            ),
            driver.raising_cause(),
            in_place(spark) as settings,
        ):
            taken = standby.take_over(
                lambda leadership: take_over(
                    leadership,
                    spark,
                    client,
                    name,
                    settings,
                    authority=authority,
                    token_url=token_url or urls[0],
                    must_exist=must_exist,
                    outage_timeout=outage_timeout,
                    if_damaged=chosen,
                    digests=digests,
                    max_entries=max_entries,
                )
            )
            led = Job(spark, name, taken, settings, connection, grace, max_entries)
            driver.lead(led)
            taken.session.raise_if_lost()  # if it was lost before the driver led the job, nothing was stopped
            try:
                yield led
            finally:
                led.close()
            led.raise_end()


@contextmanager
def _alone(spark: SparkSession, name: str) -> Iterator[None]:
    """Refuse a second `lead` of the same job inside one application: of a query started twice, Spark lets neither
    survive. Refuse that of a job whose name the service cannot tell from the first one's, too.
    """
    # The epoch of a write is told by the name of a header, in which the case of letters means nothing.
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
    """Raise `UnsafeQuery` for a session that cannot be led from, before anybody waits for the epoch."""
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
