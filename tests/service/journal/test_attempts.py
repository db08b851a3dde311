"""The newest attempt of a key stands for it, older ones end as it does, and writes of files are remembered."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from milepost.errors import IdempotencyMismatch, OutcomeUnknown
from milepost.wire import Code
from milepost_server.journal import attempts
from milepost_server.journal.attempts import REMEMBERED_SECONDS, Attempts, MaySubmit
from milepost_server.journal.pending import PendingRequest
from milepost_server.model.records import Store
from milepost_server.model.requests.base import Attempt, BlobRef, Request
from milepost_server.model.requests.handles import LockHandle, ReleaseHandle
from milepost_server.model.requests.trees import DeletePath, PutFile, TreeRequest
from milepost_server.rules.decisions import Accepted, Answer, Refused

pytestmark = pytest.mark.anyio

KEY, OTHER = ("flights", "a", "k"), ("flights", "b", "k")
LOCK = LockHandle(Attempt("a", "k"), "flights", "pointer")
TIMEOUT = 60.0


class Stage:
    """Attempts that submit when the test says so, and what they submitted."""

    def __init__(self) -> None:
        self.attempts = Attempts(lambda: 5.0)
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

        return asyncio.create_task(self.attempts.run(scope, act, timeout)), passes.set


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
    assert stage.attempts._prepared == {}


PUT = PutFile(Attempt("", "k"), "flights", "a/b", 1, BlobRef("key", 3, "abc"))
DELETE = DeletePath(Attempt("", "k"), "flights", "a/b", 1)
ANSWER = Answer(version="7", created=True)
CHANGED = Accepted(ANSWER, {"stores/flights": Store("flights")})


class Clock:
    """A clock that the test moves."""

    now = 5.0

    def __call__(self) -> float:
        return self.now


def numbered(number: int, key: str = "k") -> PutFile:
    return replace(PUT, attempt=Attempt("", key, number))


async def end(known: Attempts, request: TreeRequest, decision: Accepted | Refused = CHANGED) -> None:
    """Submit a request, and let it end with this decision."""
    pending = PendingRequest(request, 60.0)
    known.submitted(pending)
    pending.serve(decision, 7, 1)
    await asyncio.sleep(0)


async def test_a_put_is_known_with_its_bytes_until_nobody_may_send_it_any_more() -> None:
    clock = Clock()
    known = Attempts(clock)
    await end(known, PUT)
    found = known.applied(replace(PUT, attempt=Attempt("another session", "k", 2)))
    assert found is not None
    assert (found.answer.version, found.answer.created, found.answer.replayed) == ("7", True, True)
    assert found.blob == "key"
    found.check_same(replace(PUT, blob=BlobRef("another", 3, "abc")))
    for other in (
        replace(PUT, blob=BlobRef("key", 3, "abd")),
        replace(PUT, path="a/c"),
        replace(PUT, overwrite=True),
        DELETE,
    ):
        with pytest.raises(IdempotencyMismatch):
            found.check_same(other)
    clock.now += REMEMBERED_SECONDS + 1
    await end(known, numbered(1, "later"))
    assert known.applied(PUT) is None
    assert known.applied(numbered(1, "later")) is not None


async def test_only_what_was_applied_is_known() -> None:
    known = Attempts(Clock())
    await end(known, PUT, Refused(Code.FENCED, "no"))
    await end(known, DELETE, Accepted(Answer({"deleted": False})))
    lost = PendingRequest(PUT, 60.0)
    known.submitted(lost)
    lost.fail(LookupError())
    await asyncio.sleep(0)
    assert known.applied(PUT) is None
    await end(known, DELETE)
    assert known.applied(PUT) is not None, "under the same key, which is why it is compared"
    assert known.applied(replace(PUT, attempt=Attempt(""))) is None


async def test_the_first_answer_stays_and_of_an_answer_from_a_record_no_blob_is_known() -> None:
    known, replay = Attempts(Clock()), Accepted(replace(ANSWER, replayed=True))
    await end(known, PUT, replay)
    found = known.applied(PUT)
    assert found is not None
    assert found.blob is None
    await end(known, PUT)
    await end(known, replace(PUT, blob=BlobRef("another", 3, "abc")), replay)
    found = known.applied(PUT)
    assert found is not None
    assert found.blob == "key"


async def test_what_is_remembered_is_bounded_however_fast_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MOST_REMEMBERED", 3)
    known = Attempts(Clock())
    for number in range(5):
        await end(known, numbered(1, f"{number}"))
        known.begin(numbered(2, f"{number}"))

    def is_late(number: int) -> bool:
        try:
            known.check_newest(numbered(1, f"{number}"))
        except OutcomeUnknown:
            return True
        return False

    assert [number for number in range(5) if known.applied(numbered(1, f"{number}")) is not None] == [2, 3, 4]
    assert [number for number in range(5) if is_late(number)] == [2, 3, 4]


async def test_an_attempt_is_late_once_a_newer_one_has_begun() -> None:
    known = Attempts(Clock())
    for number in (1, 1, 2, 2, 1001):
        known.begin(numbered(number))
    known.begin(numbered(1, "another key"))
    for number in (1, 2, 1000):
        with pytest.raises(OutcomeUnknown, match="attempt 1001"):
            known.begin(numbered(number))
    known.check_newest(numbered(1001))


async def test_first_attempts_take_no_memory_however_many_clients_make_up_keys() -> None:
    known = Attempts(Clock())
    before = sys.getsizeof(known._numbers._values)
    for number in range(1000):
        known.begin(numbered(1, f"{number}"))
    assert sys.getsizeof(known._numbers._values) == before
