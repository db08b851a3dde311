"""What clients are told must be true of the committed history, and must reflect all that was acknowledged before."""

from __future__ import annotations

import hashlib
from typing import Any

from milepost.errors import MilepostError, Problem
from milepost.wire import Code, Outcome
from milepost_server.model.records import ENDED_SESSION_SECONDS
from milepost_server.model.requests.base import HandleRequest, Request, StoreRequest
from milepost_server.model.requests.handles import (
    Add,
    Campaign,
    Clear,
    CreateUpload,
    LockAll,
    LockHandle,
    ReleaseHandle,
    Remove,
    Replace,
    Resign,
)
from milepost_server.model.requests.sessions import OpenSession
from tests.simulation.callers.calls import Call, GoodAnswer, Look
from tests.simulation.callers.model import Body, alike
from tests.simulation.checks.chronicle import Chronicle, Ended
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.world.blobs import BlobService

SAYS_NOTHING = frozenset(
    {
        Code.NO_LEADER,
        Code.STORAGE_UNAVAILABLE,
        Code.STORAGE_FULL,
        Code.OUTCOME_UNKNOWN,
        Code.SHUTTING_DOWN,
        Code.TOO_MANY_REQUESTS,
    }
)
"""Problems that say nothing about what is stored."""


class Answers:
    """Judges what clients are told. ``acknowledged`` is the newest revision that any of them was told of."""

    def __init__(self, chronicle: Chronicle, blobs: BlobService) -> None:
        self._blobs = blobs
        self.acknowledged = 0
        self._chronicle = chronicle
        self._left: set[str] = set()

    def asked(self, call: Call) -> None:
        """A client is about to ask."""
        self._chronicle.asked(call)

    # -- good answers ----------------------------------------------------------------------------------------------

    def check(self, call: Call, answer: GoodAnswer) -> None:
        """Check a good answer that a client got."""
        if answer.revision > self._chronicle.head.revision:
            raise Violation(Invariant.DIRTY_READ, f"{call} was told of revision {answer.revision}, not committed yet")
        # An attempt that joins an earlier one ends as that one does, also at a leader that was deposed since.
        floor = call.begun if answer.replayed else call.floor
        if answer.revision < floor:
            raise Violation(
                Invariant.STALE_READ, f"{call} was told of revision {answer.revision}, though {floor} was known"
            )
        self.acknowledged = max(self.acknowledged, answer.revision)
        if isinstance(call.ask, Look):
            if not self._looks_right(call.ask, answer):
                raise Violation(Invariant.DIRTY_READ, f"{call} was told {answer}, which never was")
            return
        assert isinstance(call.ask, Request)
        applied = self._chronicle.applied.get(call)
        anew = call in self._chronicle.forgotten and not answer.replayed
        if applied is None or (anew and answer.revision != applied.revision):
            if not self._needed_nothing(call, call.ask, answer):
                raise Violation(Invariant.TRUTHFUL_YES, f"{call} was told {answer}, but it was not committed")
        elif isinstance(call.ask, LockAll):
            if not self._listed(call.ask.store_name, answer.body["handles"], floor, answer.revision, removing=False):
                raise Violation(Invariant.DIRTY_READ, f"{call} was told {answer}, which never was")
        elif not (answer.body == applied.body if call.ask.key else _alike(call.ask, applied.body, answer.body)):
            raise Violation(Invariant.FIRST_ANSWER, f"{call} was told {answer}, its first answer is {applied}")
        elif not answer.replayed and answer.revision != applied.revision:
            raise Violation(Invariant.FIRST_ANSWER, f"{call} was told {answer}, it was applied as {applied}")

    def _looks_right(self, look: Look, answer: GoodAnswer) -> bool:
        history, at, body = self._chronicle, answer.revision, answer.body
        match look.kind:
            case "get":
                return body["removing"] is False and alike(history.handles[look.store, look.name].at(at), body)
            case "state" | "redirect":
                version, data = body
                was = history.handles[look.store, look.name].at(at)
                return was is not None and (version, hashlib.sha256(data).hexdigest()) == (
                    was["version"],
                    was["sha256"],
                )
            case "list":
                return self._listed(look.store, body, at, at, removing=True)
            case "epoch":
                return alike({**history.epochs[look.store].at(at), "wish": None}, body)  # no simulated caller has one
            case "session" | "keepalive":
                return history.sessions[look.session].at(at) is True and (
                    look.kind == "keepalive" or body["locks"] == self._locks_of(look.session, at)
                )
            case "stores":
                return all(entry["handles"] == len(self._names(entry["store"], at)) for entry in body)

    def _locks_of(self, session: str, at: int) -> list[dict[str, str]]:
        return [
            {"store": store, "name": name}
            for (store, name), timeline in sorted(self._chronicle.handles.items())
            if (was := timeline.at(at)) is not None and session in was["locks"]
        ]

    def _names(self, store: str, at: int) -> list[str]:
        return sorted(
            name
            for (of, name), timeline in self._chronicle.handles.items()
            if of == store and timeline.at(at) is not None
        )

    def _listed(self, store: str, listed: list[Body], first: int, last: int, *, removing: bool) -> bool:
        """Whether a listing was true at some revision."""
        timelines = {name: line for (of, name), line in self._chronicle.handles.items() if of == store}
        moments = {first, last, *(at for line in timelines.values() for at in line.changes(first, last))}
        for at in sorted(moments, reverse=True):
            was = {name: body for name, line in timelines.items() if (body := line.at(at)) is not None}
            shown = [was[name] for name in sorted(was) if removing or not was[name]["removing"]]
            if len(shown) == len(listed) and all(map(alike, shown, listed)):
                return True
        return False

    def _needed_nothing(self, call: Call, ask: Request, answer: GoodAnswer) -> bool:
        """Whether the answer was true without any change, at some revision that it may reflect."""
        first, last, body = call.floor, answer.revision, answer.body
        if isinstance(ask, OpenSession):
            return any(was is True for was in self._chronicle.sessions[ask.session].between(first, last))
        if isinstance(ask, Campaign):
            epochs = self._chronicle.epochs[ask.store_name].between(first, last)
            return any(alike(was, body) and was["session"] == ask.session for was in epochs)
        if isinstance(ask, Resign):
            return any(was["session"] is None for was in self._chronicle.epochs[ask.store_name].between(first, last))
        if isinstance(ask, Clear):
            return body == {"cleared": 0} and any(not self._names(ask.store_name, at) for at in range(first, last + 1))
        if not isinstance(ask, HandleRequest):
            return False
        for was in self._chronicle.handles[ask.store_name, ask.name].between(first, last):
            there = was if was is not None and not was["removing"] else None
            held: list[str] = there["locks"] if there else []
            if isinstance(ask, LockHandle) and ask.session in held and alike(there, body):
                return True
            if isinstance(ask, ReleaseHandle) and ask.session not in held:
                return True
            if isinstance(ask, Remove):
                if body["removed"] and there is None:
                    return True
                if not body["removed"] and body["locks"] == held and held and ask.session not in held:
                    return True
        return False

    # -- refusals --------------------------------------------------------------------------------------------------

    def refused(self, call: Call, problem: Problem) -> None:
        """One attempt of a client ended with a problem."""
        if problem.code in SAYS_NOTHING:
            return
        if problem.code in (Code.BLOB_MISSING, Code.CORRUPT):
            raise Violation(Invariant.BLOB_THERE, f"{call} was refused with {problem}")
        if not self._was_so(call, problem):
            raise Violation(Invariant.DIRTY_READ, f"{call} was refused with {problem} {problem.extras}: never so")

    def _was_so(self, call: Call, problem: Problem) -> bool:
        first, last, ask, extras = call.floor, self._chronicle.head.revision, call.ask, problem.extras
        assert isinstance(ask, Request | Look)
        if problem.code is Code.DISCARD_FAILED:
            assert isinstance(ask, Remove)
            return call in self._chronicle.applied or any(
                was is None or was["removing"]
                for was in self._chronicle.handles[ask.store_name, ask.name].between(first, last)
            )
        if problem.code in (Code.SESSION_EXPIRED, Code.SESSION_UNKNOWN):
            return any(
                self._is_gone(was, problem.code) for was in self._chronicle.sessions[ask.session].between(first, last)
            )
        if problem.code in (Code.HELD, Code.FENCED):
            assert isinstance(ask, StoreRequest)
            epochs = self._chronicle.epochs[ask.store_name].between(first, last)
            return any(_fences(was, ask, problem.code, extras) for was in epochs)
        if problem.code in (Code.UPLOAD_UNKNOWN, Code.DIGEST_MISMATCH):
            return self._upload_was_so(call, problem.code)
        store = ask.store if isinstance(ask, Look) else ask.store_name if isinstance(ask, StoreRequest) else ""
        handles = self._chronicle.handles[store, getattr(ask, "name", "")].between(first, last)
        return any(_explains(was, ask, problem.code, extras) for was in handles)

    def _upload_was_so(self, call: Call, code: Code) -> bool:
        ask, last = call.ask, self._chronicle.head.revision
        if isinstance(ask, CreateUpload):
            applied = self._chronicle.applied.get(call)
            if applied is None or code is not Code.UPLOAD_UNKNOWN:
                return False
            return not all(self._chronicle.uploads[ask.store_name, applied.body["upload"]].between(call.floor, last))
        assert isinstance(ask, Add | Replace)
        assert ask.upload is not None
        place = ask.store_name, ask.upload.id
        announced = self._chronicle.announced[place]
        if code is Code.UPLOAD_UNKNOWN:
            since = self._blobs.there_since(announced.blob)
            there = since is not None and since < call.sent
            return not there or not all(self._chronicle.uploads[place].between(call.floor, last))
        if (announced.size, announced.sha256) != (ask.blob.size, ask.blob.sha256):
            return True
        return hashlib.sha256(self._blobs.get(announced.blob)).hexdigest() != announced.sha256

    def _is_gone(self, was: bool | Ended | None, code: Code) -> bool:
        if code is Code.SESSION_EXPIRED:
            return isinstance(was, Ended)
        return was is None or (isinstance(was, Ended) and self._chronicle.clock() - was.at >= ENDED_SESSION_SECONDS)

    # -- sessions --------------------------------------------------------------------------------------------------

    def believes(self, session: str, until: float) -> None:
        """A client is sure from now on that its session lives until then, unless it asked for its end."""
        if session in self._left:
            return
        now, was = self._chronicle.clock(), self._chronicle.sessions[session].at(self._chronicle.head.revision)
        if now < until and was is not True:
            raise Violation(
                Invariant.BELIEVED, f"{session} ended ({was}), though its client is sure of it until {until}"
            )
        believed = self._chronicle.believed
        believed[session] = max(until, believed.get(session, 0.0))

    def leaves(self, session: str) -> None:
        """A client asks for the end of its session."""
        self._left.add(session)
        self._chronicle.believed.pop(session, None)

    # -- the end of a call -----------------------------------------------------------------------------------------

    def ended(self, call: Call, error: MilepostError) -> None:
        """A client gave up: what the SDK would tell its user has to be true for ever."""
        outcome = error.outcome if isinstance(error, Problem) else Outcome.NOT_APPLIED
        if outcome is not Outcome.NOT_APPLIED or isinstance(call.ask, Look):
            return
        if (applied := self._chronicle.applied.get(call)) is not None:
            raise Violation(Invariant.TRUTHFUL_NO, f"{call} was told as not applied ({error}), but was: {applied}")
        # An attempt that is still on its way in the network may arrive after the answer; nobody can prevent that.
        call.denied = call.undelivered == 0


def _alike(ask: Request, modelled: Body, actual: Body) -> bool:
    """Whether the answer to a request without a key is as modelled: it is not kept. (A clear may not count what was
    just being removed.)
    """
    return isinstance(ask, Clear) or alike(modelled, actual)


def _fences(was: Body, ask: StoreRequest, code: Code, extras: dict[str, Any]) -> bool:
    other = was["session"] is not None and was["session"] != ask.session
    if code is Code.HELD:
        return other and was["epoch"] == extras["epoch"]
    wrong = other if isinstance(ask, Resign) else (getattr(ask, "epoch", None) or 0) != was["epoch"]
    return wrong and bool(was["epoch"] == extras["current"])


def _explains(was: Body | None, ask: Request | Look, code: Code, extras: dict[str, Any]) -> bool:
    """Whether a handle that was so had to be refused so."""
    there = was if was is not None and not was["removing"] else None
    if code is Code.NOT_EXIST:
        return there is None
    if there is None:
        return False
    if code is Code.ALREADY_EXISTS:
        return bool(there["version"] == extras["current"])
    if code is Code.VERSION_MISMATCH:
        return bool(there["version"] == extras["current"] != getattr(ask, "version", None))
    return code is Code.NOT_LOCKED and isinstance(ask, Replace) and ask.session not in there["locks"]
