"""Leads a job: gets the epoch, the record, the checkpoint and the query, and gives them up in reverse order."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import SparkNoSuchElementException

from milepost.client import Client
from milepost.core.calls.calls import Token
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.drivers.connections import Verify
from milepost.errors import Fenced, NoProgress, SessionLost, UnsafeQuery
from milepost.session import Session
from milepost.spark.checkpoints.recovery import recover
from milepost.spark.checkpoints.removals import Removals
from milepost.spark.checkpoints.snapshotter import LAYER_PREFIX, Snapshotter
from milepost.spark.checkpoints.workdir import default_workdir, remove_older
from milepost.spark.driver.driver import Driver
from milepost.spark.driver.sigterm import on_sigterm
from milepost.spark.driver.standby import Standby
from milepost.spark.driver.watch import Watch
from milepost.spark.job import Job
from milepost.spark.output.hadoop import HadoopFiles
from milepost.spark.pointer import JobPointer
from milepost.spark.preflight import RETAINED, check_retained
from milepost.spark.store import SettlingStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_led: set[tuple[str, str]] = set()
_led_lock = threading.Lock()


@contextmanager
def lead(
    spark: SparkSession,
    url: str | Sequence[str],
    store: str,
    *,
    workdir: str | os.PathLike[str] | None = None,
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
    retain: int = 2,
    token: Token | None = None,
    verify: Verify = True,
) -> Iterator[Job]:
    """Wait until this driver leads the job ``store``, restore its newest safe checkpoint, and yield the `Job`.

    Standbys wait here, at most ``wait`` seconds (None: for ever), through outages and lost sessions. Leaving the block
    stops the query, registers the final checkpoint and resigns. SIGTERM does the same if this runs in the main thread;
    before there is a query, it ends the program with status 143. ``url`` is the address of the service, or several;
    ``holder`` is the name that others see. ``token`` and ``verify`` are those of `milepost.Client`. With
    ``must_exist``, a service that does not know the job is refused (`JobUnknown`), instead of beginning the job there.

    ``workdir`` holds the checkpoint directories; on a cluster it must be the same path for the driver and the
    executors. ``ttl`` is the length of the session in seconds: a driver that freezes is replaced after it, and one that
    cannot reach the service for so long ends. ``timeout`` (seconds) bounds one call to the service, beside the time for
    its bytes; ``outage_timeout`` bounds how long a batch waits for an outage of the service to end, within ``ttl``.
    ``grace`` (seconds) bounds how long stopping waits for the batch that is being published; a batch that takes longer
    is interrupted, and the next driver runs it again. ``retain`` checkpoints are kept; more than two only help a person
    with a repair, since a query cannot continue from older ones.

    A driver that is alive but makes no progress gives up the epoch: when Spark's JVM has not answered for
    ``jvm_timeout`` seconds (`JvmLost`; the JVM is killed, so that calls which wait for it end), and when a batch has
    taken ``batch_timeout`` seconds (`BatchTimeout`); None turns either off. A batch that was entered ``max_entries``
    times and never finished is not entered again (`NoProgress`; with None it always is).

    Raises `EpochHeld` when the wait has ended, `UnsafeQuery`, `NoSafeCheckpoint`, `InputMissing`, `RecordUnreadable`,
    and the errors of `milepost.Client`.
    """
    if retain < 1:
        raise ValueError("retain must be at least one")
    for name, least in (("jvm_timeout", jvm_timeout), ("batch_timeout", batch_timeout), ("max_entries", max_entries)):
        if least is not None and least <= 0:
            raise ValueError(f"{name} must be more than 0, or None")
    _check_session(spark)
    parent = Path(workdir) if workdir is not None else default_workdir(spark.sparkContext.master or "")
    who = holder or f"{spark.sparkContext.applicationId}@{socket.gethostname()}:{os.getpid()}"
    driver = Driver(spark)
    with (
        _alone(spark, store),
        on_sigterm(driver.stop, driver.running),
        Client(url, token=token, timeout=timeout, verify=verify) as client,
        driver.standing_by(Standby(client, who, store, ttl, wait, driver.lost)) as standby,
        Watch(spark, jvm_timeout, batch_timeout, driver.batch, driver.overdue, driver.give_up),
        driver.raising_cause(),
        ExitStack() as led,
    ):
        while driver.job is None:
            handles = standby.lead()
            try:
                removals = led.enter_context(closing(Removals(handles)))
                certain = SettlingStore(handles, outage_timeout=outage_timeout, timeout=timeout)
                pointer = JobPointer.take(certain, must_exist=must_exist)
                _check_entries(pointer, max_entries)
                driver.job = _take_over(spark, store, standby.led_by, pointer, removals, parent, retain, grace)
                standby.led_by.raise_if_lost()  # if it was lost before there was a job, nothing was stopped
            except (Fenced, SessionLost, *OUTAGES_OR_DOUBT) as error:
                driver.job = None
                led.close()
                standby.again(error)
        try:
            yield driver.job
        finally:
            driver.job.close()
        driver.job.raise_end()


@contextmanager
def _alone(spark: SparkSession, store: str) -> Iterator[None]:
    """Refuse a second `lead` of the same job inside one application: of a query started twice, Spark lets neither
    survive.
    """
    key = (str(spark.sparkContext.applicationId), store)
    with _led_lock:
        if key in _led:
            raise UnsafeQuery(
                f"this Spark application leads {store!r} already: a standby is another application, "
                "and a restart leaves the block of the first lead() before it enters another"
            )
        _led.add(key)
    try:
        yield
    finally:
        with _led_lock:
            _led.discard(key)


def _check_session(spark: SparkSession) -> None:
    if not hasattr(spark, "_jsparkSession"):
        raise UnsafeQuery(
            "Spark Connect runs foreachBatch on its server, where this driver does not see it: use a classic session"
        )
    check_retained(spark.conf.get(RETAINED))


def _check_entries(pointer: JobPointer, most: int | None) -> None:
    record = pointer.record
    if most is not None and record.entries >= most:
        raise NoProgress(
            f"batch {record.entered} was entered {record.entries} times and never finished, as often as lead's "
            "max_entries allows: find out what ends its drivers, then set it higher, or to None"
        )


def _take_over(
    spark: SparkSession,
    name: str,
    session: Session,
    pointer: JobPointer,
    removals: Removals,
    parent: Path,
    retain: int,
    grace: float,
) -> Job:
    """Build the checkpoint directory and the job, once the epoch is granted and the job record is read."""
    store = pointer.store
    files = HadoopFiles(spark)
    directory = parent / name / pointer.record.job
    try:
        restored, recovery = recover(
            store.plain,
            pointer.record,
            directory,
            store.epoch,
            setting=lambda key: _setting(spark, key),
            modified_ms=files.modified_ms,
        )
    except OSError as error:  # a newer driver deletes what older ones build
        store.raise_if_fenced(error)
        raise
    remove_older(directory, store.epoch)
    removals.sweep(LAYER_PREFIX, pointer.record.layer_names())
    snapshotter = Snapshotter(store, restored.directory, restored.layer_index)
    return Job(spark, name, session, pointer, snapshotter, removals, recovery, retain, grace)


def _setting(spark: SparkSession, key: str) -> str | None:
    """Return the value that a query of this session would use: the one that is set, else Spark's default, else None."""
    try:
        return spark.conf.get(key)
    except SparkNoSuchElementException:
        return None
