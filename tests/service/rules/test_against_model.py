"""The rules against the plain model of the contract, under hypothesis' choice of requests.

The model knows nothing of revisions, layers or lazily scrubbed records. Groups are staged, committed and lost under
it; a lost group takes the model back to what was committed.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.records import Handle, Session, Store, Upload, encode, session_key
from milepost_server.model.records import decode as decode_record
from milepost_server.model.requests.base import LEADER, Attempt, BlobRef, Request, UploadRef
from milepost_server.model.requests.handles import (
    Add,
    Campaign,
    Clear,
    CreateUpload,
    ExpireUpload,
    FinishRemoval,
    LockAll,
    LockHandle,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Replace,
    Resign,
    Scrub,
)
from milepost_server.model.requests.sessions import EndSession, ExpireSession, OpenSession
from milepost_server.rules.answers import epoch_holder
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted, Blocked, Decision, DecisionContext, Refused
from milepost_server.rules.locks import holders
from tests.service.rules import history
from tests.service.rules.bench import names_in, retried, with_inventory
from tests.simulation.callers.model import PlainHandle, PlainModel, PlainStore, alike

EXPLORED = int(os.environ.get("MILEPOST_EXPLORE", "0"))
"""So many examples, other ones each time; 0 stands for the same hundred each time."""

STORE = "store"
MOST_UPLOADS = 3
SESSIONS = st.sampled_from(["ann", "bob", "cid"])
NAMES = st.sampled_from(["x", "y", "z"])
EPOCHS = st.sampled_from(["current"] * 6 + ["none", "never", "newer"])
SELDOM = st.sampled_from([False] * 5 + [True])
SAID_FIRST = (Code.SESSION_UNKNOWN, Code.SESSION_EXPIRED, Code.FENCED)
"""The refusals that count before anything that is said of a handle."""

R = TypeVar("R", bound=Request)


@dataclass
class Known:
    """What is there, and the answers that are kept."""

    model: PlainModel = field(default_factory=lambda: PlainModel(MOST_UPLOADS))
    answers: dict[str, tuple[Request, dict[str, Any]]] = field(default_factory=dict)

    @property
    def store(self) -> PlainStore:
        return self.model.store(STORE)

    def live(self, session: str) -> bool:
        known = self.model.sessions.get(session)
        return known is not None and not known.ended


class RulesAgainstModel(RuleBasedStateMachine):
    """Makes each request of the rules and of the model; both have to say and to change the same."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View(State())
        self.known = Known()
        self.committed = Known()
        self.revision = 1
        self.newest_committed = 1
        self.group = 1
        self.made = 0
        self.horizon = 0
        self.announced: dict[str, BlobRef] = {}
        self.blobs: dict[str, str] = {}
        """The blob of each version that there ever was."""

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

    def own(self, request: Request) -> Accepted:
        """Do what the leader asks for itself, which is never refused."""
        decision = self.do(request)
        assert isinstance(decision, Accepted), decision
        return decision

    def asked(self, kind: Callable[..., R], session: str, *rest: Any) -> R:
        """Make a request, under a key of its own."""
        return kind(Attempt(session, self.key()), *rest)

    def same(self, request: Request) -> Accepted | None:
        """Do it in both, and compare; the decision, if it is granted."""
        decision = self.do(request)
        if isinstance(request, Add) and self.must_wait_for_removal(request):
            assert isinstance(decision, Blocked)
            assert decision.finish.version == self.known.store.handles[request.name].version
            return None
        version = (decision.answer.version or "") if isinstance(decision, Accepted) else ""
        judged = self.known.model.apply(request, version)
        if judged.code is not None:
            self.refused(decision, judged.code)
            assert isinstance(decision, Refused)
            assert judged.body.items() <= decision.extras.items()
            return None
        assert isinstance(decision, Accepted), decision
        assert not decision.answer.replayed
        answered = with_inventory(self.view, decision)
        assert as_modelled(judged.body, dict(answered.answer.body)), (answered.answer.body, judged.body)
        if request.key is not None and decision.changes:
            self.known.answers[request.key] = (request, dict(decision.answer.body))
        return answered

    def must_wait_for_removal(self, request: Add) -> bool:
        handle = self.known.store.handles.get(request.name)
        if handle is None or not handle.removing:
            return False
        return copy.deepcopy(self.known.model).apply(request, "").code not in SAID_FIRST

    def set_version(self, accepted: Accepted | None, blob: str) -> None:
        """What was granted has set a state, whose bytes lie under ``blob``."""
        if accepted is not None:
            assert accepted.answer.version
            assert accepted.answer.version not in self.blobs, "a version was used again"
            self.blobs[accepted.answer.version] = blob

    def key(self) -> str:
        self.made += 1
        return f"k{self.made}"

    def blob(self) -> BlobRef:
        self.made += 1
        return BlobRef(f"blob-{self.made}", self.made, f"{self.made:064x}")

    def epoch_of(self, choice: str) -> int | None:
        epoch = self.known.store.epoch
        return {"current": epoch or None, "none": None, "never": 1000, "newer": epoch + 1}[choice]

    @staticmethod
    def refused(decision: Decision, code: Code) -> None:
        assert isinstance(decision, Refused), decision
        assert decision.code is code

    # -- groups and time -------------------------------------------------------------------------------------------

    @initialize()
    def two_sessions(self) -> None:
        for session in ("ann", "bob"):
            self.open_session(session)
        self.commit_all()
        for name in ("x", "y"):
            self.add("ann", name, "current", "")

    @rule()
    def next_group(self) -> None:
        self.group += 1

    @rule()
    def commit_all(self) -> None:
        self.view.commit(self.group)
        self.group += 1
        self.newest_committed = self.revision
        self.committed = copy.deepcopy(self.known)

    @rule()
    def lose_what_is_in_flight(self) -> None:
        """The term was abandoned and nothing of it was committed: the next view is built from what is committed."""
        self.view = View(self.view.state)
        self.group += 1
        self.known = copy.deepcopy(self.committed)

    @rule()
    def ten_minutes_pass(self) -> None:
        self.commit_all()
        self.horizon = self.newest_committed
        self.known.answers.clear()
        self.committed.answers.clear()

    @rule()
    def scrub(self) -> None:
        keys = tuple(self.view.state.records)
        accepted = self.own(Scrub(LEADER, store_name=STORE, keys=keys))
        handles = [record for record in self.view.state.records.values() if isinstance(record, Handle)]
        named = {handle.blob for handle in handles if handle.name in self.known.store.handles and not handle.gone}
        assert not named & set(accepted.orphans)

    # -- uploads ---------------------------------------------------------------------------------------------------

    @rule(session=SESSIONS)
    def create_upload(self, session: str) -> None:
        lying = self.blob()
        request = self.asked(CreateUpload, session, STORE, f"u-{lying.key}", lying, 900.0)
        if self.same(request) is not None:
            self.announced[request.upload] = lying

    @precondition(lambda self: self.announced)
    @rule(data=st.data(), session=SESSIONS, name=NAMES, choice=EPOCHS, put=st.sampled_from([True, True, True, False]))
    def take_upload(self, data: st.DataObject, session: str, name: str, choice: str, put: bool) -> None:
        """Add, or replace what is there, with bytes that lie in the blob store already, or do not."""
        upload = data.draw(st.sampled_from(sorted(self.announced)))
        lying, handle, epoch = self.announced[upload], self.known.store.present(name), self.epoch_of(choice)
        said, ref = replace(lying, key=""), UploadRef(upload, lying if put else None)
        request: Add | Replace
        if handle is None:
            request = self.asked(Add, session, STORE, name, epoch, said, {}, ref)
        else:
            request = self.asked(Replace, session, STORE, name, epoch, handle.version, said, None, ref)
        if put or upload not in self.known.store.uploads:
            self.set_version(self.same(request), lying.key)
            return
        # The model knows only what was said of an upload. Bytes that never came are refused where they would be taken.
        decision, judged = self.do(request), copy.deepcopy(self.known.model).apply(request, "")
        if isinstance(request, Add) and self.must_wait_for_removal(request):
            assert isinstance(decision, Blocked)
        else:
            self.refused(decision, judged.code or Code.UPLOAD_UNKNOWN)

    @precondition(lambda self: self.announced)
    @rule(data=st.data(), really=SELDOM)
    def expire_upload(self, data: st.DataObject, really: bool) -> None:
        upload = data.draw(st.sampled_from(sorted(self.announced)))
        if upload in self.known.store.uploads and not really:
            return
        accepted = self.own(ExpireUpload(LEADER, store_name=STORE, upload=upload))
        pending, record = self.known.store.uploads.pop(upload, None), self.view.upload(STORE, upload)
        assert bool(accepted.changes) is (pending is not None)
        if pending is not None:
            assert isinstance(record, Upload)
            assert (record.ended, record.blob) == (self.revision, self.announced[upload].key)

    # -- sessions --------------------------------------------------------------------------------------------------

    @rule(session=SESSIONS)
    def open_session(self, session: str) -> None:
        unknown = session not in self.known.model.sessions
        accepted = self.same(self.asked(OpenSession, session, 10.0, session))
        assert accepted is None or accepted.answer.created is unknown

    @rule(session=SESSIONS, really=SELDOM)
    def end_session(self, session: str, really: bool) -> None:
        if really or not self.known.live(session):
            self.same(self.asked(EndSession, session))

    @precondition(lambda self: self.known.model.sessions)
    @rule(session=SESSIONS, really=SELDOM)
    def expire_session(self, session: str, really: bool) -> None:
        stale = not really
        record = self.view.session(session)
        created_revision = record.created_revision if isinstance(record, Session) else 0
        accepted = self.own(ExpireSession(Attempt(session), created_revision=created_revision + (1 if stale else 0)))
        expires = self.known.live(session) and not stale
        assert bool(accepted.changes) is expires
        if expires:
            self.known.model.end(session)

    @precondition(lambda self: any(session.ended for session in self.known.model.sessions.values()))
    @rule()
    def an_hour_passes(self) -> None:
        """Ended sessions are forgotten, and their ids may be used again."""
        self.ten_minutes_pass()
        context = replace(self.context(), sessions_horizon=self.newest_committed)
        sessions = self.known.model.sessions
        keys = tuple(session_key(session) for session in sessions)
        decision = decide(self.view, Scrub(LEADER, store_name=STORE, keys=keys), context)
        assert isinstance(decision, Accepted)
        self.revision += 1
        self.view.stage(decision.changes, self.group)
        ended = [session for session in sessions if not self.known.live(session)]
        for session in ended:
            del sessions[session]
        self.commit_all()
        for session in ended:
            self.open_session(session)

    # -- handles ---------------------------------------------------------------------------------------------------

    @rule(session=SESSIONS, name=NAMES, choice=EPOCHS, label=st.sampled_from(["", "a", "b"]))
    def add(self, session: str, name: str, choice: str, label: str) -> None:
        labels = {"label": label} if label else {}
        blob = self.blob()
        accepted = self.same(self.asked(Add, session, STORE, name, self.epoch_of(choice), blob, labels))
        self.set_version(accepted, blob.key)

    @rule(session=SESSIONS, name=NAMES, choice=EPOCHS, stale=SELDOM, relabel=st.booleans())
    def replace(self, session: str, name: str, choice: str, stale: bool, relabel: bool) -> None:
        handle = self.known.store.present(name)
        version = "line.0" if stale or handle is None else handle.version
        labels = {"label": "new"} if relabel else None
        blob = self.blob()
        accepted = self.same(self.asked(Replace, session, STORE, name, self.epoch_of(choice), version, blob, labels))
        self.set_version(accepted, blob.key)
        assert accepted is None or accepted.discards == (self.blobs[version],)

    @rule(session=SESSIONS, name=NAMES, choice=EPOCHS, match=st.sampled_from(["none", "none", "current", "stale"]))
    def remove(self, session: str, name: str, choice: str, match: str) -> None:
        handle = self.known.store.handles.get(name)
        version = {"none": None, "current": handle.version if handle else "line.0", "stale": "line.0"}[match]
        accepted = self.same(self.asked(Remove, session, STORE, name, self.epoch_of(choice), version))
        if accepted is not None:
            assert bool(accepted.finish) is (handle is not None and handle.removing)

    @rule(name=NAMES, stale=st.booleans())
    def finish_removal(self, name: str, stale: bool) -> None:
        handle = self.known.store.handles.get(name)
        version = "line.0" if stale or handle is None else handle.version
        accepted = self.own(FinishRemoval(LEADER, store_name=STORE, name=name, version=version))
        if handle is not None and handle.removing and not stale:
            self.known.model.finish(STORE, name)
        else:
            assert not accepted.changes

    @rule(session=SESSIONS, name=NAMES)
    def lock(self, session: str, name: str) -> None:
        accepted = self.same(self.asked(LockHandle, session, STORE, name))
        assert accepted is None or accepted.answer.version == self.known.store.handles[name].version

    @rule(session=SESSIONS, name=NAMES)
    def release(self, session: str, name: str) -> None:
        self.same(self.asked(ReleaseHandle, session, STORE, name))

    # -- the store as a whole --------------------------------------------------------------------------------------

    @rule(session=SESSIONS)
    def lock_all(self, session: str) -> None:
        self.same(LockAll(Attempt(session), STORE))

    @rule(session=SESSIONS)
    def release_all(self, session: str) -> None:
        self.same(self.asked(ReleaseAll, session, STORE))

    @rule(session=SESSIONS, choice=EPOCHS, really=SELDOM)
    def clear(self, session: str, choice: str, really: bool) -> None:
        if really:
            self.same(self.asked(Clear, session, STORE, self.epoch_of(choice)))

    # -- epochs ----------------------------------------------------------------------------------------------------

    @rule(session=SESSIONS)
    def campaign(self, session: str) -> None:
        self.same(self.asked(Campaign, session, STORE))

    @rule(session=SESSIONS)
    def resign(self, session: str) -> None:
        self.same(self.asked(Resign, session, STORE))

    # -- retries ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.known.answers)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """Whatever happened since, the first answer comes again and nothing changes."""
        key = data.draw(st.sampled_from(sorted(self.known.answers)))
        request, body = self.known.answers[key]
        decision = decide(self.view, retried(request, 2), self.context())
        assert isinstance(decision, Accepted), decision
        assert decision.answer.replayed
        assert not decision.changes
        assert decision.answer.body == body

    @precondition(lambda self: self.known.answers)
    @rule(data=st.data())
    def use_a_key_for_another_request(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.known.answers)))
        request, _ = self.known.answers[key]
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
            if isinstance(handle, Handle) and not handle.gone and handle.created_revision > store.cleared:
                assert handle.blob == self.blobs[handle.version]
                locks = set(holders(self.view, store, handle))
                found[name] = PlainHandle(
                    handle.version, handle.size, handle.sha256, handle.labels, handle.epoch, locks, handle.removing
                )
        assert found == self.known.store.handles
        assert store.epoch == self.known.store.epoch
        holder = epoch_holder(self.view, store)
        assert (holder and holder.id) == self.known.store.holder

    @invariant()
    def the_history_is_that_of_the_epochs(self) -> None:
        record = self.view.store(STORE)
        history.check(self.view, record if isinstance(record, Store) else Store(STORE))

    @invariant()
    def the_same_uploads_are_pending(self) -> None:
        records = [self.view.upload(STORE, upload) for upload in self.announced]
        pending = {record.id: record.blob for record in records if isinstance(record, Upload) and not record.ended}
        assert pending == {upload: self.announced[upload].key for upload in self.known.store.uploads}
        assert self.view.pending_uploads(STORE) == len(pending)


def as_modelled(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    """Tell whether an answer is the model's, or whether each entry of a listing is."""
    if "handles" not in expected:
        return alike(expected, actual)
    listed, there = actual["handles"], expected["handles"]
    return not actual["corrupt"] and len(listed) == len(there) and all(map(alike, there, listed))


TestRulesAgainstModel = RulesAgainstModel.TestCase
TestRulesAgainstModel.settings = settings(
    max_examples=EXPLORED or 100, stateful_step_count=80, deadline=None, derandomize=not EXPLORED, print_blob=True
)
