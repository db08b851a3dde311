"""A server whose clients may do different things, and a store of each of two teams that know nothing of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, connect

TOKENS = {
    "of-a": "token-of-team-a-0123456789",
    "of-b": "token-of-team-b-0123456789",
    "reads-a": "token-of-a-reader-of-a-012",
    "reads-all": "token-of-dashboards-01234",
    "ops": "token-of-those-who-run-it",
}
"""What each client shows."""


def lines() -> list[str]:
    """The lines of the token file. Some of the tokens stand there as they are, and others as digests."""
    hashed = {name: f"sha256:{sha256(token.encode()).hexdigest()}" for name, token in TOKENS.items()}
    return [
        f"of-a {TOKENS['of-a']} writer=a-*",
        f"of-b {hashed['of-b']} writer=b-*",
        f"reads-a {hashed['reads-a']} reader=a-*",
        f"reads-all {TOKENS['reads-all']} read-only",
        f"ops {hashed['ops']} admin",
    ]


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access") / "tokens"


@pytest.fixture(scope="module")
def guarded(token_file: Path) -> Iterator[ServerProcess]:
    token_file.write_text("\n".join(lines()))
    with ServerProcess(token_file.parent, "--token-file", str(token_file)) as server:
        yield server.start()


As = Callable[[str], httpx.Client]


@pytest.fixture(scope="module")
def as_client(guarded: ServerProcess) -> Iterator[As]:
    """A function that gives a client of this name."""
    with ExitStack() as opened:
        made: dict[str, httpx.Client] = {}

        def client(name: str) -> httpx.Client:
            if name not in made:
                made[name] = opened.enter_context(connect(guarded.url))
                made[name].headers["Authorization"] = f"Bearer {TOKENS[name]}"
            return made[name]

        yield client


@pytest.fixture
def a(as_client: As, store: str) -> Api:
    """The driver of team A, with a session and a store of its own."""
    return Api.on(as_client("of-a"), f"a-{store}", "the driver of a")


@pytest.fixture
def b(as_client: As, store: str) -> Api:
    """The driver of team B, which holds the epoch of a store with a state in it."""
    driver = Api.on(as_client("of-b"), f"b-{store}", "the driver of b")
    driver = driver.under(driver.granted())
    driver.added("latest", b"the secret of b")
    return driver
