"""One run: a server of its own, so many requests of each kind, and what the server is like afterwards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from testbed.server import ServerProcess
from tests.fuzz.budget import Budget, TimeUp
from tests.fuzz.generated import World, chains, single
from tests.fuzz.verdicts import Page, Wrong
from tests.fuzz.wild import wild
from tests.wire.support.api import LONG_TTL, connect, open_session

KINDS: dict[str, Callable[[World, int, int], None]] = {"single": single, "chains": chains, "wild": wild}
_MOST_STATE_BYTES = 100_000


def run(directory: Path, cases: int, seed: int, seconds: float) -> dict[str, int]:
    """How many requests of each kind were sent. Raises `Wrong` for the first answer that is not as documented."""
    sent: dict[str, int] = {}
    with ServerProcess(directory, "--max-state-bytes", str(_MOST_STATE_BYTES)) as server:
        server.start()
        with connect(server.url) as http:
            page = Page(http.get("/openapi.json").json())
            for kind, tried in KINDS.items():
                budget = Budget(seconds / len(KINDS))
                world = World(server.url, page, [open_session(http, LONG_TTL)], [], budget)
                with suppress(TimeUp):
                    tried(world, cases // len(KINDS), seed)
                if world.wrong is not None:
                    raise world.wrong
                sent[kind] = budget.taken
                if http.get("/readyz").status_code != 200:
                    raise Wrong(f"the server is not ready after {kind}")
        if not server.running or "Traceback" in server.logged():
            raise Wrong(f"the server logged a fault of its own: {server.logged()[-4000:]}")
    return sent
