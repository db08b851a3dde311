"""One case: a history, a damage, and what the service makes of it."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BackendError
from milepost_server.journal import JournalSettings
from tests.contracts.places import Services
from tests.corrupt.history import History, Silent
from tests.corrupt.shape import Damage, Scene, Store, damaged
from tests.support.servers.replicas import PROMPT, Rig
from tests.support.waiting import until

SETTINGS = replace(
    PROMPT,
    request_seconds=5.0,
    stand_back_seconds=0.2,
    inline_below=100,
    compact_from=20,
    compact_after_seconds=0.0,
    journal=JournalSettings(give_up_seconds=2.0),
)
TIMEOUT_SECONDS = 30.0
_TOKEN = re.compile(r"--accept-loss ([0-9a-f]{8})")
_LOGGERS = ("milepost", "milepost_backends", "milepost_server")
_TRIES = 20
_LOSSES = 4
_FOR_NOW = (Code.STORAGE_UNAVAILABLE, Code.OUTCOME_UNKNOWN, Code.NO_LEADER, Code.CORRUPT, Code.STORAGE_FULL)


class End(Enum):
    """How a case ended."""

    UNHARMED = "all is as it was acknowledged"
    HEALED = "reported, and all is as it was acknowledged"
    NAMED = "reported, and what is lost is named to those who ask for it"
    REFUSED = "reported, and nothing is served until its owner accepts the loss"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing, one damage, with a leader or without; ``seed`` says where."""

    store: Store
    kind: str
    damage: Damage
    leader: bool
    seed: int

    def __str__(self) -> str:
        leader = "leader" if self.leader else "no-leader"
        return f"{self.store.name}:{self.kind}:{self.damage.name.lower()}:{leader}:{self.seed}".replace(" ", "-")


@dataclass(slots=True)
class Outcome:
    """How it ended, what was logged from the damage on, and what is lost by name."""

    end: End
    said: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)


async def try_out(case: Case, directory: Path, services: Services) -> Outcome:
    """Raises `Silent`; for a loss by what is harmless as well."""
    outcome = await _try_out(case, directory, services)
    harmless = case.store.by_name[case.kind].harmless
    if harmless and outcome.end in (End.NAMED, End.REFUSED):
        raise Silent(f"{harmless}, and yet: {outcome.end.value}: {outcome.losses}\n" + "\n".join(outcome.said))
    return outcome


async def _try_out(case: Case, directory: Path, services: Services) -> Outcome:
    async with case.store.open(directory, services) as scene:
        history = case.store.by_name[case.kind].history()
        rig = Rig(scene.build, SETTINGS)
        try:
            await rig.start()
            await history.begin(rig)
            older = await (await scene.thing(case.kind, random.Random(case.seed))).read()
            await history.go_on(rig)
            await _settled(rig)
            if not case.leader:
                await scene.leader_ends(case.kind, killed=False)
                await rig.stop()
                await scene.leader_ended(case.kind)
            with _listening() as said:
                await _damage(case, scene, older)
                losses = await _under_the_leader(rig, history) if case.leader else []
                if case.leader:
                    await scene.leader_ends(case.kind, killed=case.seed % 2 == 1)
                await rig.stop()
                if case.leader:
                    await scene.leader_ended(case.kind)
                return await _after(scene, history, said, losses)
        finally:
            await rig.stop()


async def _settled(rig: Rig) -> None:
    """Blobs that were replaced and removed are gone, so that nothing moves while the damage is done."""
    await rig.emptied_trash()


async def _damage(case: Case, scene: Scene, older: bytes | None) -> None:
    thing = await scene.thing(case.kind, random.Random(case.seed))
    content = await thing.read()
    assert content is not None, f"there is no {case.kind} to be damaged"
    chance = random.Random(case.seed)
    for _ in range(_TRIES):
        if (after := damaged(case.damage, content, older, thing, chance)) != content:
            break
    await thing.write(after)


async def _under_the_leader(rig: Rig, history: History) -> list[str]:
    """It goes on, as far as it can: what it serves is right, and what it cannot do it says."""
    try:
        await history.write(rig, range(20, 23))
        return await history.losses(rig)
    except Problem as problem:
        if problem.code not in _FOR_NOW:
            raise Silent(f"under the leader: {problem.code}: {problem}") from problem
        return []


async def _after(scene: Scene, history: History, said: list[str], losses: list[str]) -> Outcome:
    """The next leadership: it serves what is right and names the rest, or refuses to begin and says what to do."""
    rig = Rig(scene.build, SETTINGS)
    try:
        if await _leads(rig, said):
            lost = losses + await history.losses(rig)
            reported = list(dict.fromkeys(said))
            if lost:
                return Outcome(End.NAMED, reported, lost)
            return Outcome(End.HEALED if reported else End.UNHARMED, reported)
        lines = await _readiness(rig)
        if all(ok for ok, _ in lines):
            raise Silent(f"it does not lead, and readyz says {lines}")
    finally:
        await rig.stop()
    await _accept(scene, history, said)
    return Outcome(End.REFUSED, list(dict.fromkeys(said)))


async def _leads(rig: Rig, said: list[str]) -> bool:
    """Whether it leads in the end, or is refused for what is damaged."""
    before = len(said)
    try:
        await rig.start(leading=False)
    except BackendError as error:
        said.append(f"ERROR the start ends: {error}")
        return False

    async def has_decided() -> bool:
        return rig.replica.leads or any(_TOKEN.search(line) for line in said[before:])

    try:
        await until(has_decided, TIMEOUT_SECONDS)
    except TimeoutError as error:
        raise Silent("it neither leads nor says why:\n" + "\n".join(dict.fromkeys(said))) from error
    return rig.replica.leads


async def _readiness(rig: Rig) -> list[tuple[bool, str]]:
    return [(line.ok, line.text) for line in await rig.probes().run()]


async def _accept(scene: Scene, history: History, said: list[str]) -> None:
    """An owner accepts what the log names, one loss after the other, as each may uncover the next: in the end it leads,
    serves nothing wrong, and grants no epoch again.
    """
    for _ in range(_LOSSES):
        losses = frozenset(_TOKEN.findall("\n".join(said)))
        if losses == scene.accept_loss:
            raise Silent("it does not lead, and nothing says what to do:\n" + "\n".join(dict.fromkeys(said)))
        scene.accept_loss = losses
        journal = replace(SETTINGS.journal, accepted_losses=losses, epoch_floor=history.epoch)
        rig = Rig(scene.build, replace(SETTINGS, journal=journal))
        try:
            if await _leads(rig, said):
                await history.nothing_wrong(rig)
                return
        finally:
            await rig.stop()
    raise Silent("it does not lead, whatever its owner accepts:\n" + "\n".join(dict.fromkeys(said)))


@contextmanager
def _listening() -> Iterator[list[str]]:
    """What the service logs from WARNING on, while the block runs."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(f"{record.levelname} {record.name}: {record.getMessage()}")

    listener = Listener(logging.WARNING)
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(listener)
    try:
        yield said
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(listener)
