"""The newest attempt of a key stands for it, and older ones end as it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from milepost.errors import IdempotencyMismatch, OutcomeUnknown
from milepost_server.journal.retries import MaySubmit, Retries
from milepost_server.rules.requests.base import Attempt, Request
from milepost_server.rules.requests.handles import LockHandle, ReleaseHandle

pytestmark = pytest.mark.anyio

KEY, OTHER = ("flights", "a", "k"), ("flights", "b", "k")
LOCK = LockHandle(Attempt("a", "k"), "flights", "pointer")
TIMEOUT = 60.0


class Stage:
    """Attempts that submit when the test says so, and what they submitted."""

    def __init__(self) -> None:
        self.retries = Retries()
        self.submitted: list[str] = []

    def begin(
        self, name: str, scope: tuple[str, str, str] = KEY, request: Request = LOCK, timeout: float = TIMEOUT
    ) -> tuple[asyncio.Task[tuple[str, bool]], Callable[[], None]]:
        """A running attempt, and what lets it submit."""
        passes = asyncio.Event()

        async def act(may_submit: MaySubmit) -> str:
            await passes.wait()
            may_submit(request)
            self.submitted.append(name)
            if name == "fails":
                raise LookupError(name)
            return name

        return asyncio.create_task(self.retries.run(scope, act, timeout)), passes.set


async def test_an_attempt_alone_submits() -> None:
    stage = Stage()
    only, pass_only = stage.begin("only")
    pass_only()
    assert await only == ("only", False)


async def test_an_older_attempt_submits_nothing_and_ends_as_the_newer_one_did() -> None:
    stage = Stage()
    older, pass_older = stage.begin("older")
    await asyncio.sleep(0)
    newer, pass_newer = stage.begin("newer")
    await asyncio.sleep(0)
    pass_newer()
    assert await newer == ("newer", False)
    pass_older()
    assert await older == ("newer", True)
    assert stage.submitted == ["newer"]


async def test_an_older_attempt_waits_for_the_end_of_the_newest() -> None:
    stage = Stage()
    attempts = []
    for name in ("first", "second", "third"):
        attempts.append(stage.begin(name))
        await asyncio.sleep(0)
    for _, let_pass in attempts:
        let_pass()
    assert await asyncio.gather(*(task for task, _ in attempts)) == [("third", True), ("third", True), ("third", False)]
    assert stage.submitted == ["third"]


async def test_an_older_attempt_fails_as_the_newer_one_did() -> None:
    stage = Stage()
    older, pass_older = stage.begin("older")
    await asyncio.sleep(0)
    newer, pass_newer = stage.begin("fails")
    await asyncio.sleep(0)
    pass_newer()
    pass_older()
    for attempt in (newer, older):
        with pytest.raises(LookupError):
            await attempt


async def test_of_a_newer_attempt_that_was_broken_off_nothing_is_known() -> None:
    stage = Stage()
    older, pass_older = stage.begin("older")
    await asyncio.sleep(0)
    newer, _ = stage.begin("newer")
    await asyncio.sleep(0)
    newer.cancel()
    pass_older()
    with pytest.raises(OutcomeUnknown):
        await older
    assert stage.submitted == []


async def test_nobody_waits_for_a_newer_attempt_for_ever() -> None:
    stage = Stage()
    older, pass_older = stage.begin("older", timeout=0.01)
    await asyncio.sleep(0)
    newer, _ = stage.begin("newer")
    await asyncio.sleep(0)
    pass_older()
    with pytest.raises(OutcomeUnknown):
        await older
    newer.cancel()
    await asyncio.wait((newer,))


async def test_another_request_under_the_key_is_not_followed() -> None:
    stage = Stage()
    older, pass_older = stage.begin("older")
    await asyncio.sleep(0)
    newer, pass_newer = stage.begin("newer", request=ReleaseHandle(Attempt("a", "k"), "flights", "pointer"))
    await asyncio.sleep(0)
    pass_newer()
    pass_older()
    assert await newer == ("newer", False)
    with pytest.raises(IdempotencyMismatch):
        await older


async def test_keys_of_other_sessions_are_other_keys_and_nothing_is_kept_of_those_that_ended() -> None:
    stage = Stage()
    both = [stage.begin("one"), stage.begin("other", OTHER)]
    await asyncio.sleep(0)
    for _, let_pass in both:
        let_pass()
    assert await asyncio.gather(*(task for task, _ in both)) == [("one", False), ("other", False)]
    assert stage.retries._newest == {}
