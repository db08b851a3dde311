"""Leads a job: gets the epoch, the record, the settings and the query, and gives them up in reverse order."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pyspark.errors import SparkNoSuchElementException

from milepost.client import Client
from milepost.core.calls.credentials import Token
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.calls.request import checked_name
from milepost.core.checkpoint_location import checkpoint_location, default_authority
from milepost.drivers.connections import Verify
from milepost.drivers.environment import File, access
from milepost.errors import Fenced, NoProgress, SessionLost, UnsafeQuery
from milepost.integrity import IfDamaged, look
from milepost.spark.driver.driver import Driver
from milepost.spark.driver.liveness import context_is_stopped
from milepost.spark.driver.sigterm import on_sigterm
from milepost.spark.driver.watch import Watch
from milepost.spark.fallback import bring_back, fall_back
from milepost.spark.job import Job
from milepost.spark.output.hadoop import HadoopFiles
from milepost.spark.pointer import JobPointer
from milepost.spark.preflight import RETAINED, check_retained
from milepost.spark.recovery import JobRecovery, recover
from milepost.spark.session_settings import check_free, default_file_system, in_place
from milepost.spark.store import ResolvingStore
from milepost.spark.strangers import warn_of_strangers
from milepost.spark.tree import CheckpointTree
from milepost.spark.warming import warm_up
from milepost.standby import Standby
from milepost.store import StateHandleStore
from milepost.types import DamagedFile, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENTRIES_TO_READ_ALL = 2
"""After a batch was begun so often without being finished, each byte of the job's files is looked at."""
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
    for name, least in (("jvm_timeout", jvm_timeout), ("batch_timeout", batch_timeout), ("max_entries", max_entries)):
        if least is not None and least <= 0:
            raise ValueError(f"{name} must be more than 0, or None")
    chosen = IfDamaged(if_damaged)
    store = checked_name(job, "job")  # its handles and files are in the store of its name
    way = access(url, token=token, token_file=token_file, verify=verify, cert=cert, key=key)
    urls = way.addresses
    reached = {"url": url, "token": token, "token_file": token_file, "verify": verify, "cert": cert, "key": key}
    _check_session(spark, checkpoint_location(urls, store, 0, authority=authority).fence)
    who = holder or f"{spark.sparkContext.applicationId}@{socket.gethostname()}:{os.getpid()}"
    driver = Driver(spark)
    with (
        _alone(spark, store),
        on_sigterm(driver.stop, driver.running, driver.forget_calls),
        Client(url, token=token, token_file=token_file, timeout=timeout, verify=verify, cert=cert, key=key) as client,
        driver.standing_by(
            Standby(client, who, store, ttl, wait, driver.lost, lambda: warm_up(spark, urls, store))
        ) as standby,
        Watch(spark, jvm_timeout, batch_timeout, driver.batch, driver.overdue, driver.fail),
        driver.raising_cause(),
        in_place(spark) as settings,
    ):
        while driver.job is None:
            handles = standby.lead()
            try:
                certain = ResolvingStore(handles, outage_timeout=outage_timeout)
                pointer = JobPointer.take(certain, authority or default_authority(urls), must_exist=must_exist)
                known = _authority(store, pointer, authority)
                location = checkpoint_location(
                    client.addresses,  # each of Hadoop's file systems begins with the first, and a query has many
                    store,
                    certain.epoch,
                    authority=known,
                    credential=handles.file_credential(),
                    token_url=token_url or urls[0],
                )
                settings.put(location.settings, location.fence)
                warn_of_strangers(location, default_file_system(spark), "fs.defaultFS")
                tree = CheckpointTree(spark, location, timeout)
                with certain.or_fenced():
                    damaged, snapshot = _made_whole(tree, handles, pointer, chosen, digests)
                    recovery = _recovered(tree, spark, pointer, max_entries)
                recovery = replace(recovery, damaged=damaged, went_back_to=None if snapshot is None else snapshot.batch)
                tree = CheckpointTree(spark, location, outage_timeout)
                driver.job = Job(
                    spark,
                    store,
                    standby.led_by,
                    pointer,
                    location,
                    settings,
                    tree,
                    recovery,
                    grace,
                    reached,
                    max_entries,
                )
                standby.led_by.raise_if_lost()  # if it was lost before there was a job, nothing was stopped
            except (Fenced, SessionLost, *OUTAGES_OR_DOUBT) as error:
                driver.job = None
                standby.again(error)
        try:
            yield driver.job
        finally:
            driver.job.close()
        driver.job.raise_end()


@contextmanager
def _alone(spark: SparkSession, store: str) -> Iterator[None]:
    """Refuse a second `lead` of the same job inside one application: of a query started twice, Spark lets neither
    survive. Refuse that of a job whose name the service cannot tell from the first one's, too.
    """
    # The epoch of a write is told by the name of a header, in which the case of letters means nothing.
    key = (str(spark.sparkContext.applicationId), store.lower())
    with _led_lock:
        other = _led.get(key, store)
        if other != store:
            raise UnsafeQuery(
                f"this Spark application leads {other!r}, and the service cannot keep the writes of {store!r} apart "
                "from its own: choose names that differ in more than case"
            )
        if key in _led:
            raise UnsafeQuery(
                f"this Spark application leads {store!r} already: a standby is another application, "
                "and a restart leaves the block of the first lead() before it enters another"
            )
        _led[key] = store
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


def _authority(store: str, pointer: JobPointer, authority: str | None) -> str:
    """Return the authority of the job's checkpoint location. Raises `UnsafeQuery` if another one is asked for."""
    known = pointer.record.authority
    if authority is not None and authority != known:
        raise UnsafeQuery(
            f"the checkpoint location of job {store!r} has the authority {known!r}, and Spark has written it into the "
            f"checkpoint: it cannot become {authority!r}; leave out lead's authority"
        )
    return known


def _made_whole(
    tree: CheckpointTree, store: StateHandleStore, pointer: JobPointer, if_damaged: IfDamaged, digests: bool
) -> tuple[tuple[DamagedFile, ...], Snapshot | None]:
    """Look for damaged files, and go back to a snapshot if there are some; return what was found, and the snapshot."""
    found = look(store, digests=digests or pointer.record.entries >= _ENTRIES_TO_READ_ALL)
    snapshot = fall_back(found, tree, store.files, pointer.record.published, if_damaged)
    bring_back(tree)
    return () if found is None else tuple(found.damaged), snapshot


def _recovered(tree: CheckpointTree, spark: SparkSession, pointer: JobPointer, most: int | None) -> JobRecovery:
    """Read and check how far the job has come, once the epoch is granted and the job record is read."""
    recovery = recover(
        tree,
        pointer.record,
        pointer.store.epoch,
        setting=lambda key: _setting(spark, key),
        modified_ms=HadoopFiles(spark).modified_ms,
    )
    if most is not None and recovery.entries >= most:
        raise NoProgress(
            f"batch {recovery.resumes_at} was entered {recovery.entries} times and never finished, as often as lead's "
            "max_entries allows: find out what ends its drivers, then set it higher, or to None"
        )
    return recovery


def _setting(spark: SparkSession, key: str) -> str | None:
    """Return the value that a query of this session would use: the one that is set, else Spark's default, else None."""
    try:
        return spark.conf.get(key)
    except SparkNoSuchElementException:
        return None
