"""The command ``milepost run``, which supervises the driver of a Spark job."""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final

import typer

from milepost.cli.errors import line_about
from milepost.cli.options import Options, connecting
from milepost.core.checkpoint_location import checkpoint_location
from milepost.errors import CheckpointDamaged, Damaged, EpochHeld, MilepostError
from milepost.integrity import IfDamaged
from milepost.supervise import CannotStart, Supervisor, Terms
from milepost.supervise.handover import check
from milepost.types import FileCredential

# the job's command takes all words after it, including options
RUN_SETTINGS: Final[dict[str, Any]] = {"allow_interspersed_args": False}

# The exit code if `milepost run` itself fails, as with `env` and `timeout`.
FAILED: Final = 125
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127

# The exit code if the job's data is damaged: EX_DATAERR of sysexits.h.
DAMAGED: Final = 65

_MOST = 1000
_POLL = 0.02
_LAST = 2.0


@connecting
def run(
    context: typer.Context,
    command: Annotated[list[str], typer.Argument(help="The command, such as spark-submit, with its arguments.")],
    job: Annotated[str, typer.Option("--job", "-j", help="Name of the job, which is that of its store.")],
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait for ever while another driver leads, or the service is away.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0.0, help="Seconds to wait while another driver leads or the service is away.")
    ] = Terms.wait or 0.0,
    ttl: Annotated[
        float, typer.Option(min=1.0, max=3600.0, help="Seconds after which a driver that froze is replaced.")
    ] = Terms.ttl,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Seconds from SIGTERM to SIGKILL when the command has to end.")
    ] = Terms.grace,
    restarts: Annotated[
        int, typer.Option(min=0, help="How often a command that failed is started again, within --within seconds.")
    ] = Terms.restarts,
    within: Annotated[float, typer.Option(min=1.0, help="The seconds within which --restarts counts.")] = Terms.within,
    holder: Annotated[
        str | None, typer.Option(help="Name by which others see who leads.", show_default="user@host:pid")
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option(
            help="Name of the service in the job's checkpoint location, the same for ever.",
            show_default="host and port of the address, or milepost for several",
        ),
    ] = None,
    token_url: Annotated[
        str | None,
        typer.Option(
            help="Where Spark gets tokens for the job's files, if the service has tokens.",
            show_default="/oauth2/token of the first address",
        ),
    ] = None,
    if_damaged: Annotated[
        IfDamaged,
        typer.Option(
            help="What to do where stored files of the job are damaged: refuse to start, fall back to the newest whole "
            "snapshot (what came after it is run again), or go on as long as no query needs them."
        ),
    ] = IfDamaged.REFUSE,
    digests: Annotated[
        bool, typer.Option("--digests", help="Look at each byte of the job's files before each start.")
    ] = False,
    agent: Annotated[
        bool,
        typer.Option(
            help="Start a Java agent in each JVM: Spark then writes its checkpoints with fewer requests, and the job's "
            "history says how many rows each batch read."
        ),
    ] = True,
) -> None:
    """Run a Spark job, one driver at a time.

    The job has a fenced checkpoint location, and is restarted when it fails. The location is in
    MILEPOST_CHECKPOINT_LOCATION; queries that name none get one below it.
    """
    options: Options = context.obj
    report = _log_to_stderr()
    terms = Terms(None if standby else wait, ttl, grace, restarts, within)
    with options.client(FAILED) as client, _errors_end_the_command(report):
        client.store(job)  # raises for an invalid name, before the job is started
        addresses = client.addresses
        # If the service uses tokens, the job's location will also have a credential.
        secret = None if options.token is None else FileCredential(0, "", "")
        check(command, os.environ, checkpoint_location(addresses, job, 0, authority=authority, credential=secret))
        supervisor = Supervisor(
            client,
            job,
            command,
            terms,
            holder=holder,
            authority=authority,
            token_url=token_url,
            if_damaged=if_damaged,
            digests=digests,
            agent=agent,
        )
        try:
            status = supervisor.run()
        except EpochHeld as held:
            report(
                f"job {job} is led by {held.holder} (epoch {held.epoch}), and was for the {wait:g} s of --wait; "
                "with --standby this would wait on"
            )
            raise typer.Exit(FAILED) from held
        except (CheckpointDamaged, Damaged) as error:
            report(f"job {job} is not started: {error}")
            raise typer.Exit(DAMAGED) from error
        except CannotStart as error:
            report(str(error))
            raise typer.Exit(NOT_EXECUTABLE if error.found else NOT_FOUND) from error
    raise typer.Exit(status)


@contextmanager
def _errors_end_the_command(report: Callable[[str], None]) -> Iterator[None]:
    try:
        yield
    except (MilepostError, OSError, ValueError) as error:
        report(line_about(error))
        raise typer.Exit(FAILED) from error


def _log_to_stderr() -> Callable[[str], None]:
    """Write the log to stderr from now on. Return a function that prints a line without the prefix of a log record,
    after all earlier records.
    """
    handler: logging.Handler
    try:
        handler = patient = PatientLog(sys.stderr.fileno())
        report = patient.say
    except (AttributeError, OSError):  # stderr is closed, or has no file descriptor
        handler, report = logging.StreamHandler(), partial(typer.echo, err=True)
    handler.setFormatter(logging.Formatter("%(asctime)s milepost run: %(message)s"))
    log = logging.getLogger("milepost")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return report


class PatientLog(logging.handlers.QueueHandler):
    """A log handler whose records a separate thread writes to ``descriptor``, so that logging never blocks.

    It keeps up to a thousand records that are not written yet. It drops further records, and later logs how many.
    """

    def __init__(self, descriptor: int) -> None:
        # A `SimpleQueue`, since a signal handler may log while it interrupts a call of the same queue.
        self._records: queue.SimpleQueue[Any] = queue.SimpleQueue()
        super().__init__(self._records)
        self._descriptor = os.dup(descriptor)
        self._taken = self._written = self._dropped = 0
        threading.Thread(target=self._write_all, name="milepost-log", daemon=True).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record, or count it as dropped if the queue is full."""
        if self._taken - self._written < _MOST:
            self._taken += 1
            self._records.put_nowait(record)
        else:
            self._dropped += 1

    def flush(self) -> None:
        """Wait for a limited time until all records are written. Records that are not written by then may be lost."""
        deadline = time.monotonic() + _LAST
        while self._written < self._taken and time.monotonic() < deadline:
            time.sleep(_POLL)

    def say(self, line: str) -> None:
        """Write ``line`` after all records, without a prefix, and wait for it as `flush` does."""
        self.enqueue(logging.makeLogRecord({"msg": line}))
        self.flush()

    def _write_all(self) -> None:
        while True:
            self._write(self._records.get())
            if self._dropped and self._records.empty():
                dropped, self._dropped = self._dropped, 0
                self._write(self._record_of(dropped))
            self._written += 1

    def _record_of(self, dropped: int) -> logging.LogRecord:
        message = f"{dropped} lines of this log were dropped, because nobody read it"
        told: logging.LogRecord = self.prepare(
            logging.LogRecord("milepost", logging.WARNING, __file__, 0, message, (), None)
        )
        return told

    def _write(self, record: logging.LogRecord) -> None:
        left = f"{record.getMessage()}\n".encode(errors="backslashreplace")
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            return  # the program that reads stderr has ended
