"""What the cluster is asked, and for how long its answers count.

The cluster is played, since a real one neither counts its questions nor waits to be told to answer. On a real one:
tests/wire/access/test_service_accounts.py.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import Account, Accounts, StorageUnavailable
from milepost_server.http.access import accounts as module
from milepost_server.http.access.accounts import (
    AT_ONCE,
    KNOWN_SECONDS,
    MOST_ASKED,
    MOST_KEPT,
    UNKNOWN_SECONDS,
    AskedAccounts,
)
from milepost_server.http.access.rights import EVERYTHING
from milepost_server.http.access.tokens import AccountRights, Tokens
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

DRIVER = Account("spark", "driver")
WALL = 1_000_000.0


def token(proof: str = "proof", **claims: Any) -> str:
    said = {"sub": "system:serviceaccount:spark:driver", "aud": ["milepost"], "exp": WALL + 3600, **claims}
    text = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
    return f"e30.{text}.{proof}"


def of_bytes(said: bytes) -> str:
    return f"e30.{base64.urlsafe_b64encode(said).decode().rstrip('=')}.x"


@dataclass
class Cluster(Accounts):
    """Answers at once with ``answers``, or an error, unless it is ``silent``."""

    answers: Account | Exception | None = DRIVER
    asked: int = 0
    now: int = 0
    most: int = 0
    silent: bool = False
    speak: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self) -> None:
        """It has nothing to open."""

    async def close(self) -> None:
        """Nor to close."""

    async def owner(self, token: str) -> Account | None:
        assert token
        self.asked += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.silent:
                await self.speak.wait()
            if isinstance(self.answers, Exception):
                raise self.answers
            return self.answers
        finally:
            self.now -= 1


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Rig:
    cluster: Cluster = field(default_factory=Cluster)
    clock: Clock = field(default_factory=Clock)
    asking: AskedAccounts = field(init=False)

    def __post_init__(self) -> None:
        listed = Tokens((), [AccountRights("spark", "driver", EVERYTHING)])
        self.asking = AskedAccounts(self.cluster, "milepost", listed, self.clock, lambda: WALL + self.clock.now)


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def test_an_answer_counts_for_a_minute_at_most(rig: Rig) -> None:
    for _ in range(3):
        found = await rig.asking.principal(token())
        assert found is not None
        assert found.name == "serviceaccount:spark/driver"
    rig.clock.now = KNOWN_SECONDS - 1
    await rig.asking.principal(token())
    assert rig.cluster.asked == 1
    rig.clock.now = KNOWN_SECONDS
    rig.cluster.answers = None
    assert await rig.asking.principal(token()) is None
    assert rig.cluster.asked == 2


async def test_nor_for_longer_than_the_token(rig: Rig) -> None:
    short = token(exp=WALL + 10)
    assert await rig.asking.principal(short) is not None
    rig.clock.now = 9.0
    assert await rig.asking.principal(short) is not None
    rig.clock.now = 10.0
    assert await rig.asking.principal(short) is None
    assert rig.cluster.asked == 1  # it says itself that it is over


async def test_a_refusal_counts_for_some_seconds(rig: Rig) -> None:
    rig.cluster.answers = None
    for _ in range(3):
        assert await rig.asking.principal(token()) is None
    assert rig.cluster.asked == 1
    rig.clock.now, rig.cluster.answers = UNKNOWN_SECONDS, DRIVER
    assert await rig.asking.principal(token()) is not None


NOT_OURS = {
    "no token of this kind": "x" * 100,
    "two parts": "e30.e30",
    "no JSON": "e30.AAAA.x",
    "no UTF-8": of_bytes(b'{"sub": "\xff"}'),
    "too deep": of_bytes(b'{"x": ' + b"[" * 10_000),
    "no object": f"e30.{base64.urlsafe_b64encode(b'[]').decode()}.x",
    "too long": token("x" * 20_000),
    "of nobody": token(sub=""),
    "of a person": token(sub="system:admin"),
    "of an account without rights": token(sub="system:serviceaccount:spark:other"),
    "of another namespace": token(sub="system:serviceaccount:other:driver"),
    "for another audience": token(aud=["kubernetes"]),
    "for another, as text": token(aud="kubernetes"),
    "over": token(exp=WALL),
    "a number for a name": token(sub=7),
}


@pytest.mark.parametrize("text", NOT_OURS.values(), ids=NOT_OURS)
async def test_what_says_itself_that_it_is_not_for_us_is_not_asked_about(rig: Rig, text: str) -> None:
    assert await rig.asking.principal(text) is None
    assert rig.cluster.asked == 0


async def test_what_the_cluster_says_counts_and_not_what_the_token_says(rig: Rig) -> None:
    rig.cluster.answers = Account("spark", "other")
    assert await rig.asking.principal(token()) is None


async def test_silence_is_no_refusal_and_is_not_remembered(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.cluster.answers = StorageUnavailable("the API does not answer")
    for _ in range(3):
        with pytest.raises(Problem) as raised:
            await rig.asking.principal(token())
        assert (raised.value.code, raised.value.retryable) == (Code.STORAGE_UNAVAILABLE, True)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    rig.cluster.answers = DRIVER
    assert await rig.asking.principal(token()) is not None


async def test_who_hangs_is_waited_for_in_bounds(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ASK_SECONDS", 0.05)
    rig.cluster.silent = True
    with pytest.raises(Problem) as raised:
        await rig.asking.principal(token())
    assert raised.value.code is Code.STORAGE_UNAVAILABLE


async def test_a_token_is_asked_about_once_for_all_who_show_it(rig: Rig) -> None:
    rig.cluster.silent = True
    shown = [asyncio.create_task(rig.asking.principal(token())) for _ in range(50)]

    async def asked() -> bool:
        return rig.cluster.asked == 1

    await until(asked)
    shown[0].cancel()  # who hangs up takes the answer from nobody else
    rig.cluster.speak.set()
    found = await asyncio.gather(*shown[1:])
    assert all(each is not None for each in found)
    assert rig.cluster.asked == 1


@pytest.mark.later
async def test_a_hundred_thousand_strangers_are_held_in_bounds(rig: Rig) -> None:
    rig.cluster.answers = None
    for number in range(100_000):
        assert await rig.asking.principal(token(f"forged{number}")) is None
    assert len(rig.asking._nobodys._answers) == MOST_KEPT
    assert rig.asking._asking == {}
    rig.cluster.silent = True
    shown = [asyncio.create_task(rig.asking.principal(token(f"more{number}"))) for number in range(MOST_ASKED + 20)]

    async def some_refused() -> bool:
        return sum(each.done() for each in shown) == 20

    await until(some_refused)
    assert rig.cluster.most <= AT_ONCE
    rig.cluster.speak.set()
    ends = await asyncio.gather(*shown, return_exceptions=True)
    refusals = [end for end in ends if isinstance(end, Problem)]
    assert [(end.code, end.retryable) for end in refusals] == [(Code.TOO_MANY_REQUESTS, True)] * 20
    assert ends.count(None) == MOST_ASKED
