"""What clients of trees are told: true at some moment since they asked, and never less than was acknowledged before.

WebHDFS tells no revision. So an answer must agree with the history at some revision between the newest one that anybody
had been told of when the call was sent, and the one that is committed now.
"""

from __future__ import annotations

from collections.abc import Iterator

from milepost.errors import MilepostError, Problem
from milepost.wire import Code, Outcome
from milepost_server.model.paths import parent_of
from milepost_server.model.requests.trees import DeletePath, MakeDirectory, PutFile, RenamePath
from tests.simulation.callers.answers import SAYS_NOTHING, Answers
from tests.simulation.callers.calls import Call, GoodAnswer
from tests.simulation.callers.tree_calls import DIRECTORY, TreeLook
from tests.simulation.checks.chronicle import Chronicle
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.checks.tree_chronicle import TreeChronicle


class TreeAnswers:
    """Judges answers about trees."""

    def __init__(self, chronicle: Chronicle, trees: TreeChronicle, answers: Answers) -> None:
        self._chronicle = chronicle
        self._trees = trees
        self._answers = answers

    def asked(self, call: Call) -> None:
        """A client is about to ask."""
        self._trees.asked(call)

    def check(self, call: Call, answer: GoodAnswer) -> None:
        """Check a good answer that a client got."""
        ask, trees, body = call.ask, self._trees, answer.body
        match ask:
            case TreeLook():
                self._looked(call, ask, body)
            case PutFile():
                self._has_landed(call, trees.applied.get(call))
            case RenamePath() if body is True:
                found = trees.renamed.get((ask.store_name, ask.path, ask.target))
                if found is not None or not trees.may_be_hidden(call):
                    self._has_landed(call, found)
            case RenamePath():
                if not (self._was(call, ask.path, None) or self._was_there(call, ask.target)):
                    raise Violation(Invariant.DIRTY_READ, f"{call} was told that it is not possible: never so")
                self._is_not_there(call, Code.ALREADY_EXISTS)
            case DeletePath():
                if not self._was(call, ask.path, None):
                    raise Violation(Invariant.TRUTHFUL_YES, f"{call} was told {body}, but it was there all the time")
            case MakeDirectory():
                if not self._was(call, ask.path, DIRECTORY):
                    raise Violation(Invariant.TRUTHFUL_YES, f"{call} was acknowledged, but there is no such directory")

    def refused(self, call: Call, problem: Problem) -> None:
        """One attempt of a client ended with a problem."""
        if problem.code in SAYS_NOTHING:
            return
        if not self._was_so(call, problem):
            broken = Invariant.BLOB_THERE if problem.code in (Code.CORRUPT, Code.BLOB_MISSING) else Invariant.DIRTY_READ
            raise Violation(broken, f"{call} was refused with {problem} {problem.extras}: never so")
        if problem.code in (Code.ALREADY_EXISTS, Code.NOT_EXIST):
            self._is_not_there(call, problem.code)

    def ended(self, call: Call, error: MilepostError) -> None:
        """A client gave up, and was in no doubt."""
        outcome = error.outcome if isinstance(error, Problem) else Outcome.NOT_APPLIED
        if outcome is not Outcome.NOT_APPLIED or isinstance(call.ask, TreeLook):
            return
        if call in self._trees.applied:
            raise Violation(Invariant.TRUTHFUL_NO, f"{call} was told as not applied ({error}), but was")
        call.denied = call.undelivered == 0

    # -- good answers ----------------------------------------------------------------------------------------------

    def _has_landed(self, call: Call, at: int | None) -> None:
        if at is None:
            raise Violation(Invariant.TRUTHFUL_YES, f"{call} was acknowledged, but it was not committed")
        self._answers.acknowledged = max(self._answers.acknowledged, at)

    def _looked(self, call: Call, look: TreeLook, body: object) -> None:
        if look.kind == "read" and body not in list(self._whats(call, look.path)):
            raise Violation(Invariant.STALE_READ, f"{call} was told {body}, which was not there")
        if look.kind == "list":
            self._listed(call, look, body)

    def _listed(self, call: Call, look: TreeLook, names: object) -> None:
        """Whoever was there all the time must be listed, and whoever is listed must have been there."""
        assert isinstance(names, tuple)
        for store, path in list(self._trees.lines):
            if store != look.store or parent_of(path) != look.path:
                continue
            whats, listed = list(self._whats(call, path)), path.rpartition("/")[2] in names
            if (listed and not any(whats)) or (not listed and all(whats)):
                raise Violation(Invariant.STALE_READ, f"{call} was told {names}, but {path} was {whats}")

    # -- refusals --------------------------------------------------------------------------------------------------

    def _was_so(self, call: Call, problem: Problem) -> bool:
        ask, code = call.ask, problem.code
        assert isinstance(ask, TreeLook | PutFile | RenamePath | DeletePath | MakeDirectory)
        store = ask.store or ""
        if code is Code.FENCED:
            last = self._chronicle.head.revision
            epochs = {was["epoch"] for was in self._chronicle.epochs[store].between(call.floor, last)}
            return problem.extras["current"] in epochs - {ask.epoch}
        if code in (Code.BLOB_MISSING, Code.CORRUPT):  # a reader whose file was replaced for longer than it lingers
            return isinstance(ask, TreeLook) and len(list(self._whats(call, ask.path))) > 1
        target = ask.target if isinstance(ask, RenamePath) else ask.path
        if code is Code.ALREADY_EXISTS:
            return self._was_there(call, target)
        if code is Code.NOT_EXIST:
            return self._was(call, ask.path, None) or self._was(call, parent_of(target), None)
        return code is Code.NOT_EMPTY and isinstance(ask, DeletePath)

    def _is_not_there(self, call: Call, code: Code) -> None:
        """Whoever is refused must not find what it asked for: the answer to its first attempt was to be given again."""
        ask = call.ask
        if isinstance(ask, PutFile) and call in self._trees.applied:
            at, path = self._trees.applied[call], ask.path
        elif isinstance(ask, RenamePath) and (ask.store_name, ask.path, ask.target) in self._trees.renamed:
            at, path = self._trees.renamed[ask.store_name, ask.path, ask.target], ask.target
        else:
            return
        here = self._trees.visible.get((ask.store_name, path))
        if here is not None and here.created_revision == at < call.floor:
            raise Violation(Invariant.FIRST_ANSWER, f"{call} was refused with {code}, but had been committed as {here}")

    # -- the window ------------------------------------------------------------------------------------------------

    def _whats(self, call: Call, path: str) -> Iterator[str | None]:
        """What was at a path since the call was sent."""
        line = self._trees.lines[call.ask.store or "", path]
        return iter([DIRECTORY] if not path else line.between(call.floor, self._chronicle.head.revision))

    def _was(self, call: Call, path: str, what: str | None) -> bool:
        return what in self._whats(call, path)

    def _was_there(self, call: Call, path: str) -> bool:
        return any(what is not None for what in self._whats(call, path))
