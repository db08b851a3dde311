"""The rules against a plain model: dictionaries, one act after the other, under hypothesis' choice of acts.

The model knows nothing of revisions, layers or lazily scrubbed records. Groups are staged, landed and lost under
it; a lost group takes the model back to what was committed.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from milepost.wire import Code
from service.rules.answers import epoch_holder
from service.rules.decide import decide
from service.rules.decisions import Accepted, Blocked, Decision, DecisionContext, Refused
from service.rules.locks import holders
from service.rules.memory.state import State
from service.rules.memory.view import View
from service.rules.records import Handle, Session, Store, Upload, encode, session_key
from service.rules.records import decode as decode_record
from service.rules.requests import (
    LEADER,
    Add,
    Attempt,
    BlobRef,
    Campaign,
    Clear,
    CreateUpload,
    EndSession,
    ExpireSession,
    ExpireUpload,
    FinishRemoval,
    LockAll,
    LockHandle,
    OpenSession,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Replace,
    Request,
    Resign,
    Scrub,
    UploadRef,
)
from tests.service.rules.bench import names_in, retried, with_inventory

EXPLORED = int(os.environ.get("MILEPOST_EXPLORE", "0"))
"""So many examples, other ones each time; 0 stands for the same hundred each time."""

STORE = "store"
MOST_UPLOADS = 3
SESSIONS = st.sampled_from(["ann", "bob", "cid"])
NAMES = st.sampled_from(["x", "y", "z"])
EPOCHS = st.sampled_from(["current"] * 6 + ["none", "never", "newer"])
SELDOM = st.sampled_from([False] * 5 + [True])


@dataclass
class Entry:
    """A handle, as the model knows it."""

    blob: BlobRef
    version: str
    epoch: int | None
    locks: set[str] = field(default_factory=set)
    labels: dict[str, str] = field(default_factory=dict)
    removing: bool = False


@dataclass
class Model:
    """What a person would say is there."""

    alive: dict[str, bool] = field(default_factory=dict)
    handles: dict[str, Entry] = field(default_factory=dict)
    epoch: int = 0
    holder: str | None = None
    answers: dict[str, tuple[Request, dict[str, Any]]] = field(default_factory=dict)
    versions: set[str] = field(default_factory=set)
    uploads: dict[str, BlobRef] = field(default_factory=dict)

    def end(self, session: str) -> None:
        self.alive[session] = False
        for entry in self.handles.values():
            entry.locks.discard(session)
        if self.holder == session:
            self.holder = None

    def there(self, name: str) -> Entry | None:
        entry = self.handles.get(name)
        return entry if entry is not None and not entry.removing else None

    def live(self, session: str) -> bool:
        return self.alive.get(session, False)


class RulesAgainstModel(RuleBasedStateMachine):
    """Acts on both; each rule of the machine is one operation and what it must answer."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View(State())
        self.model = Model()
        self.committed = Model()
        self.revision = 1
        self.landed = 1
        self.group = 1
        self.made = 0
        self.horizon = 0
        self.announced: dict[str, BlobRef] = {}

    # -- the machinery ---------------------------------------------------------------------------------------------

    def context(self) -> DecisionContext:
        wall = "2026-01-01T00:00:00.000Z"
        return DecisionContext(self.revision + 1, "line", wall, keys_horizon=self.horizon, most_uploads=MOST_UPLOADS)

    def do(self, request: Request) -> Decision:
        decision = decide(self.view, request, self.context())
        if isinstance(decision, Accepted) and decision.changes:
            self.revision += 1
            self.view.stage(decision.changes, self.group)
            for key, record in decision.changes.items():
                assert record is None or decode_record(key, encode(key, record)) == record
        return decision

    def key(self) -> str:
        self.made += 1
        return f"k{self.made}"

    def blob(self) -> BlobRef:
        self.made += 1
        return BlobRef(f"blob-{self.made}", self.made, f"{self.made:064x}")

    def epoch_of(self, choice: str) -> int | None:
        return {"current": self.model.epoch or None, "none": None, "never": 1000, "newer": self.model.epoch + 1}[choice]

    def expected_refusal(self, session: str, epoch: int | None, *, fenced: bool) -> Code | None:
        if session not in self.model.alive:
            return Code.SESSION_UNKNOWN
        if not self.model.live(session):
            return Code.SESSION_EXPIRED
        if fenced and epoch != (self.model.epoch or None):
            return Code.FENCED
        return None

    def granted(self, request: Request, decision: Decision) -> Accepted:
        assert isinstance(decision, Accepted), decision
        assert not decision.answer.replayed
        if request.key is not None and decision.changes:
            self.model.answers[request.key] = (request, dict(decision.answer.body))
        return decision

    @staticmethod
    def refused(decision: Decision, code: Code) -> None:
        assert isinstance(decision, Refused), decision
        assert decision.code is code

    # -- groups and time -------------------------------------------------------------------------------------------

    @initialize()
    def two_sessions(self) -> None:
        for session in ("ann", "bob"):
            self.open_session(session)
        self.land()
        for name in ("x", "y"):
            self.add("ann", name, "current", "")

    @rule()
    def next_group(self) -> None:
        self.group += 1

    @rule()
    def land(self) -> None:
        self.view.land(self.group)
        self.group += 1
        self.landed = self.revision
        self.committed = copy.deepcopy(self.model)

    @rule()
    def lose_what_is_in_flight(self) -> None:
        """The term was burnt and nothing of it had landed: the next view is built from what is committed."""
        self.view = View(self.view.state)
        self.group += 1
        self.model = copy.deepcopy(self.committed)

    @rule()
    def ten_minutes_pass(self) -> None:
        self.land()
        self.horizon = self.landed
        self.model.answers.clear()
        self.committed.answers.clear()

    @rule()
    def scrub(self) -> None:
        keys = tuple(self.view.state.records)
        decision = self.do(Scrub(LEADER, store_name=STORE, keys=keys))
        assert isinstance(decision, Accepted)
        handles = [record for record in self.view.state.records.values() if isinstance(record, Handle)]
        named = {handle.blob for handle in handles if handle.name in self.model.handles and not handle.gone}
        assert not named & set(decision.orphans)

    # -- uploads ---------------------------------------------------------------------------------------------------

    @rule(session=SESSIONS)
    def create_upload(self, session: str) -> None:
        lying = self.blob()
        request = CreateUpload(Attempt(session, self.key()), STORE, f"u-{lying.key}", lying, 900.0)
        decision = self.do(request)
        if code := self.expected_refusal(session, None, fenced=False):
            self.refused(decision, code)
        elif len(self.model.uploads) == MOST_UPLOADS:
            self.refused(decision, Code.TOO_MANY_REQUESTS)
        else:
            assert self.granted(request, decision).answer.body == {"upload": request.upload}
            self.model.uploads[request.upload] = self.announced[request.upload] = lying

    @precondition(lambda self: self.announced)
    @rule(data=st.data(), session=SESSIONS, name=NAMES, choice=EPOCHS, put=st.sampled_from([True, True, True, False]))
    def take_upload(self, data: st.DataObject, session: str, name: str, choice: str, put: bool) -> None:
        """Add, or replace what is there, with bytes that lie in the blob store already, or do not."""
        upload = data.draw(st.sampled_from(sorted(self.announced)))
        lying, entry, epoch = self.announced[upload], self.model.there(name), self.epoch_of(choice)
        said, ref = replace(lying, key=""), UploadRef(upload, lying if put else None)
        request: Request
        if entry is None:
            request = Add(Attempt(session, self.key()), STORE, name, epoch, said, {}, ref)
        else:
            request = Replace(Attempt(session, self.key()), STORE, name, epoch, entry.version, said, None, ref)
        decision = self.do(request)
        if code := self.expected_refusal(session, epoch, fenced=True):
            self.refused(decision, code)
        elif name in self.model.handles and entry is None:
            assert isinstance(decision, Blocked)
        elif entry is not None and session not in entry.locks:
            self.refused(decision, Code.NOT_LOCKED)
        elif upload not in self.model.uploads or not put:
            self.refused(decision, Code.UPLOAD_UNKNOWN)
        else:
            version = self.granted(request, decision).answer.version or ""
            locks, labels = (set(entry.locks), entry.labels) if entry else ({session}, {})
            self.set_version(name, Entry(lying, version, epoch, locks, labels))
            del self.model.uploads[upload]

    @precondition(lambda self: self.announced)
    @rule(data=st.data(), really=SELDOM)
    def expire_upload(self, data: st.DataObject, really: bool) -> None:
        upload = data.draw(st.sampled_from(sorted(self.announced)))
        if upload in self.model.uploads and not really:
            return
        decision = self.do(ExpireUpload(LEADER, store_name=STORE, upload=upload))
        assert isinstance(decision, Accepted)
        pending, record = self.model.uploads.pop(upload, None), self.view.upload(STORE, upload)
        assert bool(decision.changes) is (pending is not None)
        if pending is not None:
            assert isinstance(record, Upload)
            assert (record.ended, record.blob) == (self.revision, pending.key)

    # -- sessions --------------------------------------------------------------------------------------------------

    @rule(session=SESSIONS)
    def open_session(self, session: str) -> None:
        request = OpenSession(Attempt(session, self.key()), ttl=10.0, holder=session)
        decision = self.do(request)
        if self.model.alive.get(session) is False:
            self.refused(decision, Code.SESSION_EXPIRED)
            return
        accepted = self.granted(request, decision)
        assert accepted.answer.created is (session not in self.model.alive)
        self.model.alive[session] = True

    @rule(session=SESSIONS, really=SELDOM)
    def end_session(self, session: str, really: bool) -> None:
        if self.model.live(session) and not really:
            return
        request = EndSession(Attempt(session, self.key()))
        decision = self.do(request)
        if code := self.expected_refusal(session, None, fenced=False):
            self.refused(decision, code)
            return
        self.granted(request, decision)
        self.model.end(session)

    @precondition(lambda self: self.model.alive)
    @rule(session=SESSIONS, really=SELDOM)
    def expire_session(self, session: str, really: bool) -> None:
        stale = not really
        record = self.view.session(session)
        born = record.born if isinstance(record, Session) else 0
        decision = self.do(ExpireSession(Attempt(session), born=born + (1 if stale else 0)))
        assert isinstance(decision, Accepted)
        if self.model.live(session) and not stale:
            assert decision.changes
            self.model.end(session)
        else:
            assert not decision.changes

    @precondition(lambda self: not all(self.model.alive.values()))
    @rule()
    def an_hour_passes(self) -> None:
        """Ended sessions are forgotten, and their ids may be used again."""
        self.ten_minutes_pass()
        context = replace(self.context(), sessions_horizon=self.landed)
        keys = tuple(session_key(session) for session in self.model.alive)
        decision = decide(self.view, Scrub(LEADER, store_name=STORE, keys=keys), context)
        assert isinstance(decision, Accepted)
        self.revision += 1
        self.view.stage(decision.changes, self.group)
        ended = [session for session, alive in self.model.alive.items() if not alive]
        self.model.alive = {session: alive for session, alive in self.model.alive.items() if alive}
        self.land()
        for session in ended:
            self.open_session(session)

    # -- handles ---------------------------------------------------------------------------------------------------

    @rule(session=SESSIONS, name=NAMES, choice=EPOCHS, label=st.sampled_from(["", "a", "b"]))
    def add(self, session: str, name: str, choice: str, label: str) -> None:
        labels = {"label": label} if label else {}
        epoch = self.epoch_of(choice)
        request = Add(Attempt(session, self.key()), STORE, name, epoch, self.blob(), labels)
        decision = self.do(request)
        if code := self.expected_refusal(session, epoch, fenced=True):
            self.refused(decision, code)
            return
        entry = self.model.handles.get(name)
        if entry is not None and entry.removing:
            assert isinstance(decision, Blocked)
            assert decision.finish.version == entry.version
        elif entry is not None:
            self.refused(decision, Code.ALREADY_EXISTS)
        else:
            version = self.granted(request, decision).answer.version or ""
            self.set_version(name, Entry(request.blob, version, epoch, {session}, labels))

    def set_version(self, name: str, entry: Entry) -> None:
        assert entry.version
        assert entry.version not in self.model.versions, "a version was used again"
        self.model.versions.add(entry.version)
        self.model.handles[name] = entry

    @rule(session=SESSIONS, name=NAMES, choice=EPOCHS, stale=SELDOM, relabel=st.booleans())
    def replace(self, session: str, name: str, choice: str, stale: bool, relabel: bool) -> None:
        entry = self.model.there(name)
        version = "line.0" if stale or entry is None else entry.version
        epoch = self.epoch_of(choice)
        labels = {"label": "new"} if relabel else None
        request = Replace(Attempt(session, self.key()), STORE, name, epoch, version, self.blob(), labels)
        decision = self.do(request)
        if code := self.expected_refusal(session, epoch, fenced=True):
            self.refused(decision, code)
        elif entry is None:
            self.refused(decision, Code.NOT_EXIST)
        elif stale:
            self.refused(decision, Code.VERSION_MISMATCH)
            assert isinstance(decision, Refused)
            assert decision.extras["current"] == entry.version
        elif session not in entry.locks:
            self.refused(decision, Code.NOT_LOCKED)
        else:
            accepted = self.granted(request, decision)
            assert len(accepted.discards) == 1
            kept = entry.labels if labels is None else labels
            version = accepted.answer.version or ""
            self.set_version(name, Entry(request.blob, version, epoch, set(entry.locks), kept))

    @rule(session=SESSIONS, name=NAMES, choice=EPOCHS, match=st.sampled_from(["none", "none", "current", "stale"]))
    def remove(self, session: str, name: str, choice: str, match: str) -> None:
        entry = self.model.handles.get(name)
        version = {"none": None, "current": entry.version if entry else "line.0", "stale": "line.0"}[match]
        epoch = self.epoch_of(choice)
        request = Remove(Attempt(session, self.key()), STORE, name, epoch, version)
        decision = self.do(request)
        if code := self.expected_refusal(session, epoch, fenced=True):
            self.refused(decision, code)
        elif entry is None:
            assert self.granted(request, decision).answer.body == {"removed": True}
        elif entry.removing:
            accepted = self.granted(request, decision)
            assert accepted.finish is not None
        elif match == "stale":
            self.refused(decision, Code.VERSION_MISMATCH)
        elif others := sorted(entry.locks - {session}):
            assert self.granted(request, decision).answer.body == {"removed": False, "locks": others}
            entry.locks.discard(session)
        else:
            accepted = self.granted(request, decision)
            assert accepted.answer.body == {"removed": True}
            assert accepted.finish is not None
            entry.removing, entry.locks = True, set()

    @rule(name=NAMES, stale=st.booleans())
    def finish_removal(self, name: str, stale: bool) -> None:
        entry = self.model.handles.get(name)
        version = "line.0" if stale or entry is None else entry.version
        decision = self.do(FinishRemoval(LEADER, store_name=STORE, name=name, version=version))
        assert isinstance(decision, Accepted)
        if entry is not None and entry.removing and not stale:
            del self.model.handles[name]
        else:
            assert not decision.changes

    @rule(session=SESSIONS, name=NAMES)
    def lock(self, session: str, name: str) -> None:
        request = LockHandle(Attempt(session, self.key()), STORE, name)
        decision = self.do(request)
        entry = self.model.there(name)
        if code := self.expected_refusal(session, None, fenced=False):
            self.refused(decision, code)
        elif entry is None:
            self.refused(decision, Code.NOT_EXIST)
        else:
            accepted = self.granted(request, decision)
            entry.locks.add(session)
            assert accepted.answer.version == entry.version
            assert accepted.answer.body["locks"] == sorted(entry.locks)

    @rule(session=SESSIONS, name=NAMES)
    def release(self, session: str, name: str) -> None:
        request = ReleaseHandle(Attempt(session, self.key()), STORE, name)
        decision = self.do(request)
        if code := self.expected_refusal(session, None, fenced=False):
            self.refused(decision, code)
            return
        self.granted(request, decision)
        if entry := self.model.there(name):
            entry.locks.discard(session)

    # -- the store as a whole --------------------------------------------------------------------------------------

    @rule(session=SESSIONS)
    def lock_all(self, session: str) -> None:
        request = LockAll(Attempt(session), STORE)
        decision = self.do(request)
        if code := self.expected_refusal(session, None, fenced=False):
            self.refused(decision, code)
            return
        accepted = self.granted(request, decision)
        there = {name: entry for name, entry in self.model.handles.items() if not entry.removing}
        for entry in there.values():
            entry.locks.add(session)
        body = with_inventory(self.view, accepted).answer.body
        told = [(handle["name"], handle["version"], handle["locks"]) for handle in body["handles"]]
        assert told == [(name, there[name].version, sorted(there[name].locks)) for name in sorted(there)]

    @rule(session=SESSIONS)
    def release_all(self, session: str) -> None:
        request = ReleaseAll(Attempt(session, self.key()), STORE)
        decision = self.do(request)
        if code := self.expected_refusal(session, None, fenced=False):
            self.refused(decision, code)
            return
        self.granted(request, decision)
        for entry in self.model.handles.values():
            entry.locks.discard(session)

    @rule(session=SESSIONS, choice=EPOCHS, really=SELDOM)
    def clear(self, session: str, choice: str, really: bool) -> None:
        if not really:
            return
        epoch = self.epoch_of(choice)
        request = Clear(Attempt(session, self.key()), STORE, epoch)
        decision = self.do(request)
        if code := self.expected_refusal(session, epoch, fenced=True):
            self.refused(decision, code)
            return
        assert self.granted(request, decision).answer.body == {"cleared": len(self.model.handles)}
        self.model.handles.clear()

    # -- epochs ----------------------------------------------------------------------------------------------------

    @rule(session=SESSIONS)
    def campaign(self, session: str) -> None:
        request = Campaign(Attempt(session, self.key()), STORE)
        decision = self.do(request)
        if code := self.expected_refusal(session, None, fenced=False):
            self.refused(decision, code)
        elif self.model.holder not in (None, session):
            self.refused(decision, Code.HELD)
        else:
            body = self.granted(request, decision).answer.body
            if self.model.holder is None:
                self.model.epoch += 1
                self.model.holder = session
            assert (body["epoch"], body["session"]) == (self.model.epoch, session)

    @rule(session=SESSIONS)
    def resign(self, session: str) -> None:
        request = Resign(Attempt(session, self.key()), STORE)
        decision = self.do(request)
        if code := self.expected_refusal(session, None, fenced=False):
            self.refused(decision, code)
        elif self.model.holder not in (None, session):
            self.refused(decision, Code.FENCED)
        else:
            self.granted(request, decision)
            self.model.holder = None

    # -- retries ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.answers)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """Whatever happened since, the first answer comes again and nothing changes."""
        key = data.draw(st.sampled_from(sorted(self.model.answers)))
        request, body = self.model.answers[key]
        decision = decide(self.view, retried(request, 2), self.context())
        assert isinstance(decision, Accepted), decision
        assert decision.answer.replayed
        assert not decision.changes
        assert decision.answer.body == body

    @precondition(lambda self: self.model.answers)
    @rule(data=st.data())
    def use_a_key_for_another_request(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.answers)))
        request, _ = self.model.answers[key]
        if request.store is not None:
            other = Remove(Attempt(request.session, key), STORE, "another", None, None)
            self.refused(decide(self.view, other, self.context()), Code.IDEMPOTENCY_MISMATCH)

    # -- what must hold all along ----------------------------------------------------------------------------------

    @invariant()
    def the_same_handles_are_there(self) -> None:
        record = self.view.store(STORE)
        store = record if isinstance(record, Store) else Store(STORE)
        found = {}
        for name in names_in(self.view, STORE):
            handle = self.view.handle(STORE, name)
            if isinstance(handle, Handle) and not handle.gone and handle.born > store.cleared:
                blob, locks = BlobRef(handle.blob, handle.size, handle.sha256), set(holders(self.view, store, handle))
                found[name] = Entry(blob, handle.version, handle.epoch, locks, handle.labels, handle.removing)
        assert found == self.model.handles
        assert store.epoch == self.model.epoch
        holder = epoch_holder(self.view, store)
        assert (holder and holder.id) == self.model.holder

    @invariant()
    def the_same_uploads_are_pending(self) -> None:
        records = [self.view.upload(STORE, upload) for upload in self.announced]
        pending = {record.id: record.blob for record in records if isinstance(record, Upload) and not record.ended}
        assert pending == {upload: lying.key for upload, lying in self.model.uploads.items()}
        assert self.view.pending_uploads(STORE) == len(pending)


TestRulesAgainstModel = RulesAgainstModel.TestCase
TestRulesAgainstModel.settings = settings(
    max_examples=EXPLORED or 100, stateful_step_count=80, deadline=None, derandomize=not EXPLORED, print_blob=True
)
