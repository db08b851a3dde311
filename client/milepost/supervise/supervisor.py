"""Runs a job's command while this process leads the job.

It waits for the epoch, starts the command, watches it, and starts it again after a failure.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from milepost.client import Client
from milepost.core.checkpoint_location import CheckpointLocation
from milepost.drivers.environment import default_holder, this_process
from milepost.errors import SessionLost
from milepost.integrity import IfDamaged, go_back, look
from milepost.jvm import NAME, content
from milepost.session import Session
from milepost.standby import Leadership, Standby
from milepost.store import StateHandleStore
from milepost.supervise.agent import listeners, obstacle, option
from milepost.supervise.command import Command, Signals
from milepost.supervise.handover import PrivateFiles, environment, options
from milepost.supervise.rows import reported

_log = logging.getLogger(__name__)
_POLL = 0.1
_KEEP = 60.0
"""The seconds between two calls of `PrivateFiles.keep`."""
_ROWS: Final = "rows"
"""The name of the file to which listeners in the command's JVMs append."""

CANNOT_RUN = (126, 127)
"""The exit statuses by which a shell, `env` and `timeout` report that a program cannot be run, or does not exist."""

End = int | SessionLost | OSError | ValueError
"""How a start ended: with the exit status of the command, with the loss of the epoch, or before a command ran."""


@dataclass(frozen=True)
class Terms:
    """The limits of a supervisor. All times are in seconds.

    ``wait`` bounds the wait for the epoch before each start (None: no limit). ``ttl`` is the TTL of the session that
    holds the epoch. ``grace`` is the time that a command may take to end after SIGTERM. At most ``restarts`` restarts
    happen within any ``within`` seconds.
    """

    wait: float | None = 30.0
    ttl: float = 15.0
    grace: float = 20.0
    restarts: int = 5
    within: float = 600.0


class Supervisor:
    """Runs the command of the job ``job`` whenever this process leads the job.

    Each start of the command has its own epoch. So processes of an earlier start that still run, such as an executor,
    can no longer change the files of the job. With ``agent``, its JVMs get the Java agent (`milepost.supervise.agent`),
    and the rows of each batch are reported to the job's history.
    """

    def __init__(
        self,
        client: Client,
        job: str,
        command: Sequence[str],
        terms: Terms,
        *,
        holder: str | None = None,
        authority: str | None = None,
        token_url: str | None = None,
        if_damaged: IfDamaged = IfDamaged.REFUSE,
        digests: bool = False,
        agent: bool = True,
    ) -> None:
        who = holder or default_holder()
        self._standby = Standby(
            client, who, job, terms.ttl, terms.wait, process=this_process(), on_wish=lambda _: self._signals.ask()
        )
        self._job = job
        self._arguments = command
        self._terms = terms
        self._authority = authority
        self._token_url = token_url
        self._if_damaged = if_damaged
        self._digests = digests
        self._has_agent = agent
        self._restarts = Restarts(terms.restarts, terms.within)
        self._signals = Signals()

    def run(self) -> int:
        """Run the command until it succeeds, fails too often, cannot be run or is asked to end; return its exit status.

        Raises `EpochHeld` if another driver holds the epoch for longer than the wait, `SessionLost` if the last start
        lost its epoch, OSError or ValueError if the last start could not pass the settings on, `CheckpointDamaged` if
        files of the job are damaged and the job must not continue, `CannotStart`, the errors of `milepost.Client`, and
        SystemExit for a signal that comes while no command runs.
        """
        with self._signals:
            try:
                while True:
                    end = self._lead()
                    if isinstance(end, int) and (self._signals.asked is not None or end == 0):
                        return end
                    if end in CANNOT_RUN:
                        _log.error(
                            "the command ended with %s, so its program cannot be run; it is not started again", end
                        )
                        return end
                    pause = self._restarts.after_failure(time.monotonic())
                    if pause is None:
                        _log.error("giving up, after %s restarts within %g s", self._terms.restarts, self._terms.within)
                        if isinstance(end, int):
                            return end
                        raise end
                    _log.warning(
                        "starting it again in %g s under a new epoch (%s of %s restarts within %g s)",
                        pause,
                        self._restarts.count,
                        self._terms.restarts,
                        self._terms.within,
                    )
                    with self._signals.wait():
                        time.sleep(pause)
            finally:
                self._standby.leave()

    def _lead(self) -> End:
        """Take the epoch, run the command once under it, and return how this ended."""
        self._standby.wait_anew()
        with self._signals.wait():
            session, store, location = self._standby.take_over(self._take_over)
        try:
            epoch = store.epoch
            assert epoch is not None
            with ExitStack() as stack:
                try:
                    files = stack.enter_context(PrivateFiles())
                    agent = rows = None
                    if self._may_have_agent(files.directory):
                        rows = self._rows_file(files.directory)
                        agent = option(files.add(NAME, content()), rows)
                    handed = files.add(f"epoch-{epoch}", options(location, os.environ, agent).encode())
                except (OSError, ValueError) as error:
                    _log.error("the command is not started, because its settings cannot be handed over: %s", error)
                    return error
                if rows is not None:
                    stack.enter_context(reported(store, rows))
                command = Command(self._arguments, environment(os.environ, location, self._job, epoch, handed))
                _log.info("leading job %s under epoch %s, started process %s", self._job, epoch, command.pid)
                return self._watched(command, session, epoch, files)
        finally:
            self._standby.resign()

    def _may_have_agent(self, directory: Path) -> bool:
        why = obstacle(self._arguments, os.environ, directory) if self._has_agent else None
        if why is not None:
            _log.warning(
                "the history will not have the rows of the batches, and checkpoints take more requests: %s", why
            )
        return self._has_agent and why is None

    def _rows_file(self, directory: Path) -> Path | None:
        """Return the file to which listeners append; None if the job keeps listeners of its own."""
        own = listeners(self._arguments, os.environ)
        if own is None:
            return directory / _ROWS
        _log.warning("the history will not have the rows of the batches: the job has listeners of its own (%s)", own)
        return None

    def _take_over(self, leadership: Leadership) -> tuple[Session, StateHandleStore, CheckpointLocation]:
        """Take the epoch, and check the files of the job; after a failed start, check all of their bytes.

        Return the session, the store under its epoch, and the checkpoint location with the settings to write there
        under this epoch.
        """
        store = leadership.store
        found = look(store, digests=self._digests or self._restarts.count > 0)
        go_back(store, found, self._if_damaged)
        location = leadership.location(self._authority, self._token_url)
        return leadership.session, store, location

    def _watched(self, command: Command, session: Session, epoch: int, files: PrivateFiles) -> End:
        """Watch the command until it has ended, or must end; then end its whole group, and return how it ended.

        After a signal, the command and its group together have one grace period.
        """
        self._signals.passed_to(command)
        deadline: float | None = None
        kept = time.monotonic()
        try:
            while command.status is None and not session.lost:
                now = time.monotonic()
                if deadline is None and self._signals.asked is not None:
                    deadline = now + self._terms.grace
                    _log.info("passed signal %s on, waiting for the command to end", self._signals.asked)
                if deadline is not None and now >= deadline:
                    _log.warning("the command has not ended in %g s, killing it", self._terms.grace)
                    break
                if now - kept >= _KEEP:
                    files.keep()
                    kept = now
                time.sleep(_POLL)
            loss = _loss(session)
            if command.status is not None:
                _log.info("the command ended with status %s under epoch %s", command.status, epoch)
            elif loss is not None:
                _log.error("epoch %s of job %s is lost, ending the command: %s", epoch, self._job, loss)
        finally:
            # Also after an error in this process, so that the command does not run on without a supervisor.
            status = command.end(self._terms.grace if deadline is None else max(0.0, deadline - time.monotonic()))
            self._signals.passed_to(None)
        done = self._signals.asked is not None or (status == 0 and not command.signalled)
        return status if loss is None or done else loss


def _loss(session: Session) -> SessionLost | None:
    try:
        session.raise_if_lost()
    except SessionLost as loss:
        return loss
    return None


@dataclass
class Restarts:
    """Limits the restarts after failures: at most ``most`` within any ``within`` seconds.

    The pauses before restarts double, beginning with ``first`` seconds.
    """

    most: int
    within: float
    first: float = 1.0
    longest: float = 60.0
    _failures: deque[float] = field(default_factory=deque)

    def after_failure(self, now: float) -> float | None:
        """Count a failure. Return the pause before the next start in seconds, or None if there must be no other
        start.
        """
        while self._failures and self._failures[0] <= now - self.within:
            self._failures.popleft()
        if len(self._failures) >= self.most:
            return None
        self._failures.append(now)
        return min(self.longest, self.first * 2.0 ** min(len(self._failures) - 1, 60))

    @property
    def count(self) -> int:
        """The number of failures within the last ``within`` seconds."""
        return len(self._failures)
