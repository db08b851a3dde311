"""What is written and acknowledged before something is damaged, and what must be true of it afterwards."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Resign
from milepost_server.replica.submitter import Caller
from tests.contracts.state_handle_store.frontends.actor import Actor
from tests.contracts.state_handle_store.frontends.use_case_frontend import UseCaseFrontend
from tests.service.acting import STORE, actor
from tests.support.servers.replicas import Rig

SESSION = "writer"


NAMED = frozenset({Code.CORRUPT, Code.BLOB_MISSING})
"""The problems by which what is lost is named to those who ask for it."""


class Silent(AssertionError):
    """Something passed in silence, was served wrong, or was granted twice."""


@dataclass
class History:
    """What was acknowledged: the version and bytes of each handle, None for one that was removed; the epoch."""

    kept: dict[str, tuple[str, bytes] | None] = field(default_factory=dict)
    epoch: int = 0

    async def begin(self, rig: Rig) -> None:
        """Open the session, win an epoch, add the first handles."""
        writer = await actor(rig, SESSION)
        self.epoch = await writer.campaign()
        await self.write(rig, range(6))
        await self.remove(rig, "h1")

    async def go_on(self, rig: Rig) -> None:
        """Replace, remove, add and win the next epoch: an older copy of anything lacks a part of this."""
        writer = self._writer(rig)
        for name in ("h2", "h3"):
            kept = self.kept[name]
            assert kept is not None
            state = b"again " + kept[1]
            entry = await writer.under(epoch=self.epoch).replace(name, kept[0], state)
            self.kept[name] = (entry.version, state)
        await self.remove(rig, "h4")
        await self.write(rig, range(6, 12))
        await rig.operations.perform(Resign(writer.caller.attempt, STORE))
        self.epoch = await writer.campaign()
        await self.write(rig, range(12, 14))

    async def write(self, rig: Rig, numbers: range) -> None:
        """Add handles of these numbers."""
        writer = self._writer(rig).under(epoch=self.epoch)
        for number in numbers:
            state = self._first(f"h{number}")
            entry = await writer.add(f"h{number}", state)
            self.kept[f"h{number}"] = (entry.version, state)

    async def remove(self, rig: Rig, name: str) -> None:
        """Remove one."""
        assert (await self._writer(rig).under(epoch=self.epoch).remove(name)).removed
        self.kept[name] = None

    async def losses(self, rig: Rig) -> list[str]:
        """What is not served as it was acknowledged, each named by the service. Raises `Silent` for the rest.

        Raises `Problem` where it does not lead any more, as without its Lease, or ceased to in the midst of a write.
        """
        found = []
        reader = self._writer(rig)
        for name, kept in self.kept.items():
            try:
                version = await reader.exists(name)
                state = await reader.read(name) if version is not None else None
            except Problem as problem:
                if problem.code is Code.NO_LEADER:
                    raise
                found.append(named(name, problem))
                continue
            if kept is None and version is not None:
                raise Silent(f"{name} was removed, and is there again")
            if kept is not None and (version, state) != kept:
                raise Silent(f"{name} is served as {version}, {state!r}, and was acknowledged as {kept}")
        return found + await self._epoch_rises(rig)

    async def nothing_wrong(self, rig: Rig) -> None:
        """After its owner accepted a loss something may be absent; what is there is a state that once was, and whole.

        The session may be gone as well, so another one asks. A damaged record of the store names itself, and no epoch
        is granted under it.
        """
        reader = await actor(rig, "owner")
        for name in self.kept:
            try:
                state = await reader.read(name) if (await reader.exists(name)) is not None else None
            except Problem as problem:
                named(name, problem)
                continue
            if state not in (None, self._first(name), b"again " + self._first(name)):
                raise Silent(f"{name} is served as {state!r}")
        with suppress(Problem):
            await rig.operations.perform(Resign(self._writer(rig).caller.attempt, STORE))
        try:
            self._rose(await reader.campaign())
        except Problem as problem:
            named("epoch", problem)

    async def _epoch_rises(self, rig: Rig) -> list[str]:
        try:
            await rig.operations.perform(Resign(self._writer(rig).caller.attempt, STORE))
            self._rose(await self._writer(rig).campaign())
        except Problem as problem:
            if problem.code in (Code.NO_LEADER, Code.OUTCOME_UNKNOWN):
                raise
            return [named("epoch", problem)]
        return []

    def _rose(self, epoch: int) -> None:
        if epoch <= self.epoch:
            raise Silent(f"epoch {epoch} is granted after {self.epoch}")
        self.epoch = epoch

    @staticmethod
    def _first(name: str) -> bytes:
        """What a handle is added with."""
        return f"state of {name} ".encode() * 20

    def _writer(self, rig: Rig) -> Actor:
        return Actor(UseCaseFrontend(lambda: rig.replica), STORE, Caller(Attempt(SESSION)))


def named(what: str, problem: Problem) -> str:
    """What is lost, as the service names it. Raises `Silent` if it does not."""
    if problem.code not in NAMED or not problem.detail:
        raise Silent(f"{what}: {problem.code}: {problem}")
    return f"{what}: {problem.code.value}"
