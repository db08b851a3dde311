"""A client: one call after the other, each in attempts under one key, judged as the SDK judges them."""

from __future__ import annotations

import asyncio
from random import Random

from milepost.core.calls.judgement import Again, History
from milepost.errors import ConnectionFailed, DeadlineExceeded, MilepostError, Problem
from milepost.wire import Code, Outcome
from milepost_server.model.requests.base import Request
from milepost_server.model.requests.trees import TreeRequest
from tests.simulation.callers.calls import Ask, Call, GoodAnswer, Look
from tests.simulation.callers.tree_calls import TreeLook
from tests.simulation.world.process import Attempt, Lost, Process, Result
from tests.simulation.world.world import World

_ELSEWHERE = (Code.NO_LEADER, Code.SHUTTING_DOWN)
_KEY_LIFETIME_SECONDS = 9 * 60.0


class Caller:
    """Gets calls answered. Raises what the SDK would raise."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.draw = world.random(name)
        self.name = name
        self._favourite: Process | None = None

    async def call(self, ask: Ask, content: bytes = b"", timeout: float = 30.0) -> tuple[GoodAnswer, float]:
        """A good answer, and when the attempt was sent from which on it surely holds."""
        world, time = self.world, self.world.loop.time
        world.tally["calls"] += 1
        call = Call(world.tally["calls"], ask, content)
        judge = world.tree_answers if is_of_tree(ask) else world.answers
        judge.asked(call)
        history = History(isinstance(ask, Request))
        started = time()
        deadline = started + min(timeout, _KEY_LIFETIME_SECONDS)
        while True:
            began = time()
            result = await self._attempt(call, history.arrived + 1)
            if isinstance(result, GoodAnswer):
                judge.check(call, result)
                world.tally["acknowledged"] += 1
                return result, started if result.replayed else began
            error = self._weighed(call, history, result)
            if error is None and (
                time() >= deadline or self.draw.random() < 0.05 or self._may_not_repeat(ask, history)
            ):
                error = history.exhausted("the client gives up")
            if error is not None:
                self._count(error)
                if not (is_of_tree(ask) and history.in_doubt):
                    judge.ended(call, error)
                raise error
            await asyncio.sleep(self.draw.uniform(0.02, 1.0) * min(1.0 + world.plan.timeout / 5, world.plan.timeout))

    def _may_not_repeat(self, ask: Ask, history: History) -> bool:
        return isinstance(ask, Request) and ask.key is None and history.in_doubt and not is_of_tree(ask)

    def _weighed(self, call: Call, history: History, result: Problem | Lost) -> MilepostError | None:
        """The error that ends the call, if this attempt does."""
        if isinstance(result, Lost):
            error = DeadlineExceeded("no answer") if result.sent else ConnectionFailed("no connection")
            history.note(Again(error, elsewhere=True, doubt=isinstance(call.ask, Request), arrived=result.sent))
            return None
        judge = self.world.tree_answers if is_of_tree(call.ask) else self.world.answers
        judge.refused(call, result)
        if not result.retryable:
            return history.refusal(result)
        doubt = isinstance(call.ask, Request) and result.outcome is Outcome.UNKNOWN
        history.note(Again(result, elsewhere=result.code in _ELSEWHERE, doubt=doubt))
        return None

    def _count(self, error: MilepostError) -> None:
        unknown = isinstance(error, Problem) and error.outcome is Outcome.UNKNOWN
        self.world.tally["unknown" if unknown else "refused or given up"] += 1

    # -- one attempt -----------------------------------------------------------------------------------------------

    async def _attempt(self, call: Call, number: int) -> Result:
        world, draw, faults = self.world, self.draw, self.world.plan.network
        loop = world.loop
        process = self._choose(draw, anywhere=0.15 if isinstance(call.ask, Look) else 0.02)
        world.tally["requests"] += 1
        call.floor, call.sent = world.answers.acknowledged, loop.time()
        call.begun = call.floor if number == 1 else call.begun
        if not process.alive:
            await asyncio.sleep(draw.expovariate(1.0) * faults.latency)
            self._favourite = None
            return Lost(sent=False)
        answer: asyncio.Future[Result] = loop.create_future()
        attempt = Attempt(call, number, answer)
        fate = 1.0 if world.calm else draw.random()
        if fate >= faults.lost:
            call.undelivered += 1
            loop.call_later(draw.expovariate(1.0) * faults.latency, process.receive, attempt)
        wait = world.plan.timeout * draw.uniform(0.5, 1.0)
        timer = loop.call_later(wait, self._give_up, attempt)
        result = await answer
        timer.cancel()
        if not world.calm and fate < faults.lost + faults.deaf:
            result = Lost(sent=True)
        world.trace.note("attempt", call.number, number, process.name, _short(result))
        useless = isinstance(result, Lost) or (isinstance(result, Problem) and result.code in _ELSEWHERE)
        if not useless:
            self._favourite = process
        elif process is self._favourite:
            self._favourite = None
        return result

    def _choose(self, draw: Random, anywhere: float) -> Process:
        """Mostly the replica that answered last, else the leader that everybody speaks of, or any."""
        if draw.random() < anywhere:
            return draw.choice(self.world.places)
        if self._favourite is None:
            leader = self.world.leader()
            known = leader is not None and draw.random() < 0.7
            self._favourite = leader if leader is not None and known else draw.choice(self.world.places)
        return self._favourite

    def _give_up(self, attempt: Attempt) -> None:
        """Wait no longer; the replica may notice that nobody listens any more, or go on."""
        attempt.end(Lost(sent=True))
        if attempt.task is not None and self.draw.random() < 0.5:
            attempt.task.cancel()


def is_of_tree(ask: Ask) -> bool:
    """Return whether a call is about a tree: Hadoop's client asks again after any doubt, and says nothing of it."""
    return isinstance(ask, TreeRequest | TreeLook)


def _short(result: Result) -> str:
    if isinstance(result, GoodAnswer):
        return f"ok {result.revision}{' replayed' if result.replayed else ''}"
    return f"lost{' unsent' if not result.sent else ''}" if isinstance(result, Lost) else result.code.value
