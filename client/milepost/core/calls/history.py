"""The history of one call: what all its attempts together say about its outcome."""

from __future__ import annotations

from milepost.core.body import SourceFailed
from milepost.core.calls.judgement import ELSEWHERE, Again
from milepost.errors import DeadlineExceeded, MilepostError, OutcomeUnknown, Problem
from milepost.wire import Code, Outcome

# The service decides these refusals knowing what became of the idempotency key; where it is not sure, it answers
# "outcome unknown". So their "not applied" also holds for earlier attempts. With any other refusal (session ended,
# credentials expired) "not applied" holds only for the attempt that was refused.
RESOLVING = frozenset(
    {
        Code.ALREADY_EXISTS,
        Code.NOT_EXIST,
        Code.VERSION_MISMATCH,
        Code.NOT_LOCKED,
        Code.FENCED,
        Code.HELD,
        Code.UPLOAD_UNKNOWN,
    }
)


class History:
    """The attempts of one call so far, as far as they decide which error the call ends with.

    ``answered`` is the last problem that a leader answered.
    """

    def __init__(self, changes: bool) -> None:
        self._changes = changes
        self._last: MilepostError | None = None
        self._telling: MilepostError | None = None
        self._cut_off = False
        self._problem: Problem | None = None
        self._applied: Problem | None = None
        self.answered: Problem | None = None
        self.in_doubt = False
        self.arrived = 0

    def note(self, verdict: Again, *, cut_off: bool = False) -> None:
        """Remember an attempt that resolved nothing; ``cut_off`` says that the call's own deadline ended it."""
        self._last = verdict.error
        self._cut_off = cut_off
        if self._telling is None or not cut_off:
            self._telling = verdict.error
        self.in_doubt = self.in_doubt or verdict.doubt
        self.arrived += verdict.arrived
        if isinstance(verdict.error, Problem):
            self._problem = verdict.error
            if verdict.error.code not in ELSEWHERE:
                self.answered = verdict.error
            if verdict.error.outcome is Outcome.APPLIED:
                self._applied = verdict.error

    def refusal(self, problem: Problem) -> MilepostError:
        """Return the error for a definitive refusal: `OutcomeUnknown` if the refusal does not say what became of the
        write.
        """
        if self._applied is not None:
            return self._applied
        unsettled = self.in_doubt and problem.code not in RESOLVING
        if self._changes and (unsettled or problem.outcome is Outcome.UNKNOWN):
            return _unknown(f"refused with {problem}", problem)
        return problem

    def source_failed(self, failure: SourceFailed) -> Exception:
        """Return the error for a source that failed: the caller's own error, unless an earlier attempt is in doubt."""
        if self.in_doubt:
            return _unknown(f"the state could not be sent again; last: {self._last}", self._last)
        return failure.error

    def exhausted(self, why: str) -> MilepostError:
        """Return the error for a call that is given up because of ``why``."""
        if self._applied is not None:
            return self._applied
        if self.in_doubt:
            before = "" if self.answered in (None, self._last) else f"; before that: {self.answered}"
            return _unknown(f"{why}; last: {self._last}{before}", self._last)
        # An attempt that was cut off may have had almost no time left, so its error says less than those before it.
        if self._problem is not None and (self._cut_off or isinstance(self._telling, DeadlineExceeded)):
            return self._problem
        if isinstance(self._telling, DeadlineExceeded) or self._telling is None:
            overdue = DeadlineExceeded(f"{why}; last: {self._telling or 'nothing was sent'}")
            overdue.request_id = None if self._telling is None else self._telling.request_id
            return overdue
        return self._telling


def _unknown(detail: str, cause: MilepostError | None) -> OutcomeUnknown:
    extras = cause.extras if isinstance(cause, Problem) else None
    error = OutcomeUnknown(Code.OUTCOME_UNKNOWN, detail, retryable=False, outcome=Outcome.UNKNOWN, extras=extras)
    error.request_id = None if cause is None else cause.request_id
    error.__cause__ = cause
    return error
