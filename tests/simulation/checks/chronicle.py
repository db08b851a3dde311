"""The committed history: every group that is committed is judged against the contract, request by request.

Which requests a group holds is read from the answers that they left in the records they changed. The service cannot
fool this: a change without an answer, or one that the contract does not grant, breaks an invariant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from milepost.wire import Code
from milepost_backends.contract import Change, Head
from milepost_server.model.answered import Answered
from milepost_server.model.records import (
    ENDED_SESSION_SECONDS,
    KEPT_KEYS_SECONDS,
    Corrupt,
    Handle,
    Record,
    Session,
    Upload,
    decode,
    handle_of,
    store_of,
    upload_of,
)
from milepost_server.model.requests.base import HandleRequest, KeyScope, Request
from milepost_server.model.requests.handles import (
    Add,
    Campaign,
    Clear,
    CreateUpload,
    LockAll,
    ReleaseAll,
    Remove,
    Replace,
    Resign,
)
from milepost_server.model.requests.sessions import EndSession, OpenSession
from milepost_server.model.trees import Tree, TreePath
from milepost_server.rules import replays
from tests.simulation.callers.calls import Call
from tests.simulation.callers.model import Body, Judged, PlainModel, alike
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.trace import Trace
from tests.simulation.world.timeline import Timeline

_OTHERS = (Corrupt, Tree, TreePath)

_BROKEN_BY = {
    Code.FENCED: Invariant.STALE_EPOCH,
    Code.HELD: Invariant.EPOCH_RISES,
    Code.VERSION_MISMATCH: Invariant.LOST_UPDATE,
    Code.SESSION_EXPIRED: Invariant.DEAD_SESSION,
    Code.SESSION_UNKNOWN: Invariant.DEAD_SESSION,
    Code.UPLOAD_UNKNOWN: Invariant.UPLOAD_ONCE,
}


class Applied(NamedTuple):
    """A call that has been committed, with the answer that was kept of it and its time."""

    revision: int
    body: Body
    at: float


class Ended(NamedTuple):
    """A session's end: when, in seconds."""

    at: float


class Announced(NamedTuple):
    """An upload: what was said of it, where its bytes belong, how long it may wait, and since when it does."""

    size: int
    sha256: str
    blob: str
    ttl: float
    at: float


class Chronicle:
    """What has been committed, as the plain model tells it.

    ``clock`` is the world's. ``leading`` tells whether a process leads already, so that a take-over within a leadership
    is told apart from its beginning. ``most_uploads``: how many a store may have pending.
    """

    def __init__(
        self, clock: Callable[[], float], leading: Callable[[str], bool], trace: Trace, most_uploads: int
    ) -> None:
        self.model = PlainModel(most_uploads)
        self.head = Head("root", 0, 0, "")
        self.applied: dict[Call, Applied] = {}
        self.forgotten: set[Call] = set()
        """Calls that have been committed, and whose answers had to make room for younger ones since."""
        self.believed: dict[str, float] = {}
        """Until when each session's client surely believes it alive."""
        self.handles: dict[tuple[str, str], Timeline[Body | None]] = defaultdict(lambda: Timeline(None))
        self.epochs: dict[str, Timeline[Body]] = defaultdict(
            lambda: Timeline({"epoch": 0, "session": None, "holder": None})
        )
        self.sessions: dict[str, Timeline[bool | Ended | None]] = defaultdict(lambda: Timeline(None))
        self.announced: dict[tuple[str, str], Announced] = {}
        self.uploads: dict[tuple[str, str], Timeline[bool]] = defaultdict(lambda: Timeline(False))
        """Whether an upload was pending."""
        self.cleared: dict[str, int] = defaultdict(int)
        self.clock = clock
        self._leading = leading
        self._trace = trace
        self._records: dict[str, Record] = {}
        self._written_at: dict[str, float] = {}
        self._answered: dict[KeyScope, Call] = {}
        self._calls: dict[KeyScope, list[Call]] = defaultdict(list)
        self._versions: set[str] = set()
        self._began: dict[str, float] = {}
        """When the newest leadership of each process began that has taken the journal over."""
        self._led_since = 0.0
        """When the leadership began whose term is the current one. A late take-over, by a process that leads no more,
        takes the term from a leader for a moment, and does not begin the leadership of that one anew.
        """

    # -- what the world tells --------------------------------------------------------------------------------------

    def asked(self, call: Call) -> None:
        """A client is about to send a request."""
        ask = call.ask
        if isinstance(ask, Request):
            mark = ask.key if ask.key is not None else f" {ask.fingerprint()}"
            self._calls[ask.store or "", ask.session, mark].append(call)

    def taken_over(self, by: str, head: Head) -> None:
        """The journal was taken over."""
        self._trace.note("take-over", by, head.term, head.revision)
        self._rises(head.revision)
        self.head = head
        if not self._leading(by):
            self._began[by] = self.clock()
        self._led_since = self._began[by]

    def committed(self, by: str, head: Head, changes: Sequence[Change], revision: int) -> dict[str, Record | None]:
        """A group has been committed; the records that it changed."""
        self._trace.note("committed", by, head.term, head.revision, revision, len(changes))
        if head.term != self.head.term:
            raise Violation(Invariant.DEPOSED, f"{by} at term {head.term} wrote under term {self.head.term}")
        self._rises(revision)
        self.head = Head(head.journal, head.term, revision, head.lineage)
        changed = {key: None if value is None else decode(key, value) for key, value in changes}
        for key, record in changed.items():
            self._keeps_answers(key, record)
        for at, step in sorted(self._steps(head.revision, changed), key=lambda step: step[0]):
            step(at)
        now = self.clock()
        for key, record in changed.items():
            if record is None:
                self._dropped(key)
            else:
                self._records[key], self._written_at[key] = record, now
        return changed

    def _rises(self, revision: int) -> None:
        if revision <= self.head.revision:
            raise Violation(Invariant.REVISION_RISES, f"revision {revision} came after {self.head.revision}")

    # -- one group -------------------------------------------------------------------------------------------------

    def _steps(self, since: int, changed: dict[str, Record | None]) -> list[tuple[int, Callable[[int], None]]]:
        """Read from its records what happened in a group: each step with its revision."""
        steps: list[tuple[int, Callable[[int], None]]] = []
        ends: list[tuple[int, Callable[[int], None]]] = []
        for key, record in changed.items():
            if record is None or isinstance(record, TreePath | Tree):
                continue  # `TreeChronicle` looks at those
            assert not isinstance(record, Corrupt), record
            store = store_of(key) or ""
            ended_by_call = False
            for entry in reversed(record.answered):
                if entry.revision <= since:
                    break
                steps.append((entry.revision, partial(self._apply, store, entry)))
                ended_by_call = ended_by_call or (isinstance(record, Session) and entry.revision == record.ended)
            old = self._records.get(key)
            if isinstance(record, Session) and record.ended > since and not ended_by_call:
                steps.append((record.ended, partial(self._expired, record.id)))
            if isinstance(record, Handle) and record.gone and not (isinstance(old, Handle) and old.gone):
                steps.append((record.changed, partial(self._finished, store, record.name)))
            if isinstance(record, Upload):
                if record.created_revision > since:
                    announced = Announced(record.size, record.sha256, record.blob, record.ttl, self.clock())
                    self.announced[store, record.id] = announced
                if record.ended > since:
                    ends.append((record.ended, partial(self._upload_ended, store, record.id)))
        return steps + ends

    def _keeps_answers(self, key: str, record: Record | None) -> None:
        """Old answers stand at the front of a record, and go from there when there are too many or they are too old.

        Those to requests without a key go with the next change: they were there for resolving alone.
        """
        old = self._records.get(key)
        if old is None or record is None or isinstance(old, _OTHERS) or isinstance(record, _OTHERS):
            return
        oldest = record.answered[0].revision if record.answered else 0
        were, are = ([entry for entry in each.answered if not entry.key.startswith(" ")] for each in (old, record))
        gone = [entry for entry in were if entry.revision < oldest]
        kept = were[len(gone) :]
        if kept != are[: len(kept)]:
            raise Violation(Invariant.NOTHING_DROPPED, f"{key} has lost answers: {old.answered}, now {record.answered}")
        for entry in gone:
            call = self._answered[store_of(key) or "", entry.session, entry.key]
            age = self.clock() - self.applied[call].at
            if age < KEPT_KEYS_SECONDS and len(record.answered) < vars(replays)["KEPT_KEYS"]:
                raise Violation(Invariant.NOTHING_DROPPED, f"{key} forgot the answer of {call} after {age} s")
            self.forgotten.add(call)

    def _apply(self, store: str, entry: Answered, at: int) -> None:
        call = self._call_of(store, entry)
        request = call.ask
        assert isinstance(request, Request)
        known = self.applied.get(call)
        if known is not None:
            raise Violation(Invariant.ONCE, f"{call} was applied at revision {known.revision} and again at {at}")
        if call.denied:
            raise Violation(
                Invariant.TRUTHFUL_NO, f"{call} was told as not applied, and was committed at revision {at}"
            )
        self._answered[store, entry.session, entry.key] = call
        version = entry.answer.get("version", "")
        if isinstance(request, CreateUpload):
            request = replace(request, upload=entry.answer["body"]["upload"])
        self._trace.note("applied", call.number, type(request).__name__, at)
        touched = self._touched(request)
        judged = self.model.apply(request, version)
        self.applied[call] = Applied(at, entry.answer.get("body", judged.body), self.clock())
        self._agree(call, entry, judged)
        if isinstance(request, Add | Replace):
            if version in self._versions:
                raise Violation(Invariant.VERSION_REUSED, f"{call} got {version} again")
            self._versions.add(version)
        self._note(request, touched, at)

    def _agree(self, call: Call, entry: Answered, judged: Judged) -> None:
        answer: Body = self.applied[call].body
        if judged.code is not None:
            broken = _BROKEN_BY.get(judged.code, Invariant.AS_MODELLED)
            raise Violation(broken, f"{call} was committed at {entry.revision}, but had to be refused: {judged}")
        if isinstance(call.ask, Remove) and answer.get("removed") and not judged.body["removed"]:
            raise Violation(Invariant.UNDER_LOCK, f"{call} removed what {judged.body['locks']} hold")
        if isinstance(call.ask, Campaign) and judged.body["epoch"] != answer["epoch"]:
            raise Violation(Invariant.EPOCH_RISES, f"{call} was granted {answer['epoch']} for {judged.body['epoch']}")
        if isinstance(call.ask, LockAll | Clear):
            return  # the answer of a listing is not kept; a clear may not count what was just being removed
        if not alike(judged.body, answer):
            raise Violation(Invariant.AS_MODELLED, f"{call} left the answer {answer}, should be {judged.body}")

    def _expired(self, session: str, at: int) -> None:
        now = self.clock()
        self._trace.note("expired", session, at)
        if now < self.believed.get(session, 0.0):
            raise Violation(Invariant.BELIEVED, f"{session} expired while its client is sure of it")
        if now < self._led_since + self.model.sessions[session].ttl:
            raise Violation(Invariant.FULL_TTL, f"{session} expired within its TTL after a fail-over")
        self._end(session, at)

    def _end(self, session: str, at: int) -> None:
        touched = list(self.model.locked_by(session))
        self.model.end(session)
        self._ended(session, touched, at)

    def _ended(self, session: str, touched: list[tuple[str, str]], at: int) -> None:
        self.sessions[session].note(at, Ended(self.clock()))
        for store in self.model.stores:
            if self.epochs[store].at(at)["session"] == session:
                self.epochs[store].note(at, self.model.epoch_body(store))
        for handle in touched:
            self.handles[handle].note(at, self.model.handle_body(*handle))

    def _finished(self, store: str, name: str, at: int) -> None:
        self.model.finish(store, name)
        self.handles[store, name].note(at, None)

    def _touched(self, request: Request) -> list[tuple[str, str]]:
        if isinstance(request, EndSession):
            return list(self.model.locked_by(request.session))
        if isinstance(request, HandleRequest):
            return [(request.store_name, request.name)]
        if isinstance(request, LockAll | ReleaseAll | Clear):
            return [(request.store_name, name) for name in self.model.store(request.store_name).handles]
        return []

    def _note(self, request: Request, touched: list[tuple[str, str]], at: int) -> None:
        if isinstance(request, EndSession):
            self._ended(request.session, touched, at)
            return
        if isinstance(request, OpenSession):
            self.sessions[request.session].note(at, True)
        if isinstance(request, Campaign | Resign):
            self.epochs[request.store_name].note(at, self.model.epoch_body(request.store_name))
        if isinstance(request, CreateUpload):
            self.uploads[request.store_name, request.upload].note(at, True)
        for handle in touched:
            self.handles[handle].note(at, self.model.handle_body(*handle))

    def _upload_ended(self, store: str, upload: str, at: int) -> None:
        """The record of an upload has ended: a handle of the same revision took it, or its time is up."""
        self.uploads[store, upload].note(at, False)
        if self.model.store(store).uploads.pop(upload, None) is None:
            return
        announced, now = self.announced[store, upload], self.clock()
        if now < max(announced.at, self._led_since) + announced.ttl:
            raise Violation(
                Invariant.FULL_TTL, f"an upload of {announced.ttl} s, announced at {announced.at}, ended at {now}"
            )

    def _call_of(self, store: str, entry: Answered) -> Call:
        """The call that left an answer; one without a key is known by what it asked for."""
        mark = f" {entry.fingerprint}" if entry.key.startswith(" ") else entry.key
        calls = self._calls.get((store, entry.session, mark))
        if not calls:
            raise Violation(Invariant.AS_MODELLED, f"nobody asked for {entry} in {store!r}")
        if not entry.key.startswith(" "):
            return calls[0]
        fresh = [call for call in calls if call not in self.applied]
        return next((call for call in fresh if not call.denied), (fresh or calls)[0])

    def _dropped(self, key: str) -> None:
        record = self._records.pop(key, None)
        written = self._written_at.pop(key, 0.0)
        age = self.clock() - written
        if isinstance(record, Handle):
            store, name = handle_of(key) or ("", "")
            if self.model.store(store).handles.get(name) is not None:
                raise Violation(Invariant.NOTHING_DROPPED, f"{key} was dropped")
            if record.answered and age < KEPT_KEYS_SECONDS:
                raise Violation(Invariant.NOTHING_DROPPED, f"{key} was dropped {age} s after its last change")
        elif isinstance(record, Upload):
            store, upload = upload_of(key) or ("", "")
            if upload in self.model.store(store).uploads:
                raise Violation(Invariant.NOTHING_DROPPED, f"{key} was dropped while it was pending")
            if (age := self.clock() - self.announced[store, upload].at) < KEPT_KEYS_SECONDS:
                raise Violation(Invariant.NOTHING_DROPPED, f"{key} was dropped {age} s after it was announced")
        elif isinstance(record, Session) and age < ENDED_SESSION_SECONDS:
            raise Violation(Invariant.NOTHING_DROPPED, f"{key} was dropped {age} s after its end")
