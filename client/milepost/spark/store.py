"""Writes to a job's store until the outcome is certain: done or refused, or still unknown after ``outage_timeout``.

It resolves an unknown outcome by reading back, never by guessing: the digest of a state shows which write it came from.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from milepost.core.calls.outages import OUTAGES
from milepost.errors import (
    AlreadyExists,
    Fenced,
    LabelsLost,
    MilepostError,
    NotExist,
    Problem,
    SessionLost,
    SparkDriverError,
    VersionMismatch,
)
from milepost.types import Epoch, Handle
from milepost.wire import Code, Outcome

_log = logging.getLogger(__name__)
_PAUSE = 0.25


class HandleStore(Protocol):
    """The methods of `milepost.StateHandleStore` that a driver uses."""

    @property
    def epoch(self) -> int | None: ...
    def add_and_lock(self, name: str, state: bytes, labels: Mapping[str, str] | None = None) -> Handle: ...
    def replace(self, name: str, version: str, state: bytes, labels: Mapping[str, str] | None = None) -> Handle: ...
    def get(self, name: str) -> Handle: ...
    def get_and_lock(self, name: str) -> Handle: ...
    def read(self, name: str, version: str | None = None) -> bytes: ...
    def current_epoch(self) -> Epoch: ...


class ResolvingStore:
    """A job's store under this driver's epoch; it resolves the outcome of each write.

    ``outage_timeout`` is the number of seconds for which a write waits for an outage to end.
    """

    def __init__(
        self,
        store: HandleStore,
        *,
        outage_timeout: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.plain = store
        self._outage_timeout = outage_timeout
        self._clock = clock
        self._sleep = sleep
        self._warned = False

    @property
    def epoch(self) -> int:
        """The epoch that each write carries."""
        if self.plain.epoch is None:
            raise ValueError("a driver may only write under an epoch")
        return self.plain.epoch

    def add(self, name: str, state: bytes, labels: Mapping[str, str]) -> Handle:
        """Store a handle. Only this epoch stores a state with these exact bytes, so a handle with its digest comes from
        this write.
        """
        digest = _digest(state)
        return self._resolve(
            lambda: self.plain.add_and_lock(name, state, labels), lambda: self._committed(name, digest)
        )

    def replace(self, name: str, version: str, state: bytes, labels: Mapping[str, str]) -> Handle:
        """Replace a handle by compare-and-set.

        Also raises `Fenced` if only the version shows that a newer driver has written.
        """
        digest = _digest(state)
        try:
            return self._resolve(
                lambda: self.plain.replace(name, version, state, labels), lambda: self._committed(name, digest)
            )
        except VersionMismatch as mismatch:
            self.raise_if_fenced(mismatch)
            raise

    def raise_if_fenced(self, cause: BaseException | None = None) -> None:
        """Raise `Fenced` if another epoch than this driver's is current."""
        current = self.plain.current_epoch().epoch
        if current != self.epoch:
            detail = f"epoch {current} leads this job, this driver had {self.epoch}"
            raise Fenced(Code.FENCED, detail, extras={"current": current}) from cause

    @contextmanager
    def or_fenced(self) -> Iterator[None]:
        """Raise `Fenced` in place of another error that a driver finds, if a newer driver leads, whose work may be the
        cause.
        """
        try:
            yield
        except SparkDriverError as error:
            self.raise_if_fenced(error)
            raise

    def _committed(self, name: str, digest: str) -> Handle | None:
        try:
            handle = self.plain.get(name)
        except NotExist:
            return None
        return handle if handle.sha256 == digest else None

    def _resolve(self, write: Callable[[], Handle], committed: Callable[[], Handle | None]) -> Handle:
        until = self._clock() + self._outage_timeout
        doubt: Problem | None = None
        look = conflict = False
        while True:
            try:
                if look and (handle := committed()) is not None:
                    return handle
                return write()
            except LabelsLost as lost:  # labels are for users, and no program depends on them
                if not self._warned:
                    _log.warning("%s", lost)
                self._warned = True
                return lost.handle
            except OUTAGES as error:
                obstacle: MilepostError = error
            except (AlreadyExists, VersionMismatch):
                if conflict:
                    raise
                look = conflict = True
                continue
            except (Fenced, SessionLost):
                raise  # whatever the outcome of the write is, the next driver finds it in the record
            except Problem as error:
                if error.outcome is not Outcome.UNKNOWN:
                    if doubt is not None:
                        raise doubt from error
                    raise
                obstacle = doubt = error
                look, conflict = True, False
            if self._clock() >= until:
                # If an earlier attempt may have been applied, its error counts: the last one says nothing of it.
                if doubt is None or doubt is obstacle:
                    raise obstacle
                raise doubt from obstacle
            _log.warning("write not resolved yet, reading back and trying again: %s", obstacle)
            self._sleep(_PAUSE)


def _digest(state: bytes) -> str:
    return hashlib.sha256(state).hexdigest()
