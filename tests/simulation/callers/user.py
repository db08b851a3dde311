"""What clients do: they open sessions and keep or neglect them, fight over few handles, campaign, read and leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from milepost.errors import MilepostError, SessionLost
from milepost_server.model.requests.base import Attempt, Request, UploadRef
from milepost_server.model.requests.handles import (
    Add,
    Campaign,
    Clear,
    CreateUpload,
    LockAll,
    LockHandle,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Replace,
    Resign,
)
from milepost_server.model.requests.sessions import EndSession, OpenSession
from tests.simulation.callers.caller import Caller
from tests.simulation.callers.calls import Ask, GoodAnswer, Kind, Look, blob_of
from tests.simulation.world.board import Announced, Board
from tests.simulation.world.world import World


class User:
    """One client with one session at a time, and sometimes the id of its last one."""

    def __init__(self, world: World, number: int, board: Board) -> None:
        self.name = f"c{number}"
        self._world = world
        self._board = board
        self._caller = Caller(world, self.name)
        self._draw = self._caller.draw
        self._session: str | None = None
        self._before = ""
        self._made = 0
        self._held: set[tuple[str, str]] = set()
        self._keeper: asyncio.Task[None] | None = None
        acts = self._acts(campaigns=world.random("campaigns").random() < 0.6)
        self._mix = [act for act, weight in acts.items() for _ in range(weight)]

    async def live(self, enough: Callable[[], bool]) -> None:
        """Do one thing after the other until it is enough."""
        while not enough():
            await asyncio.sleep(self._draw.expovariate(1.0) * self._world.plan.pace)
            with suppress(MilepostError):
                if self._session is None:
                    await self._open()
                else:
                    await self._act(*self._draw.choice(self._mix)())
        self._leave()

    async def probe(self) -> None:
        """Add, replace, read and remove a handle of one's own. Raises what goes wrong."""
        await self._open()
        session, store, name = self._session or "", "s0", f"{self.name}-{self._number()}"
        answer = await self._ask(Look("epoch", store))
        epoch, first, second = answer.body["epoch"] or None, self._content(), self._content()
        answer = await self._ask(Add(Attempt(session, self._key()), store, name, epoch, blob_of(first)), first)
        version = answer.body["version"]
        answer = await self._ask(
            Replace(Attempt(session, self._key()), store, name, epoch, version, blob_of(second)), second
        )
        version = answer.body["version"]
        assert (await self._ask(Look("state", store, name, version=version))).body == (version, second)
        answer = await self._ask(Remove(Attempt(session, self._key()), store, name, epoch, version))
        assert answer.body == {"removed": True}
        self._leave()

    # -- sessions --------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        session = f"{self.name}-{self._number()}"
        ttl = max(1.0, round(self._world.plan.ttl * self._draw.uniform(0.5, 1.5), 3))
        _, since = await self._caller.call(OpenSession(Attempt(session, self._key_or_none()), ttl, self.name))
        self._world.answers.believes(session, since + ttl)
        self._session = session
        self._held.clear()
        self._keeper = asyncio.create_task(self._keep(session, ttl))

    async def _keep(self, session: str, ttl: float) -> None:
        """Renew the session until it is lost; some are neglected after a while, some renewed in the last moment."""
        keeper = Caller(self._world, f"keeper {session}")
        neglected, earliest, latest = keeper.draw.choice(
            ((False, 0.1, 0.5), (False, 0.1, 0.5), (False, 0.8, 1.1), (True, 0.1, 0.5))
        )
        while not neglected or keeper.draw.random() < 0.8:
            await asyncio.sleep(ttl * keeper.draw.uniform(earliest, latest))
            try:
                _, since = await keeper.call(Look("keepalive", session=session), timeout=ttl / 3)
            except SessionLost:
                return
            except MilepostError:
                continue
            self._world.answers.believes(session, since + ttl)

    def _leave(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        if self._session is not None:
            self._before = self._session
        self._session = None

    # -- acts ------------------------------------------------------------------------------------------------------

    def _acts(self, *, campaigns: bool) -> dict[Callable[[], tuple[Ask, bytes]], int]:
        return {
            self._write: 40,
            self._add: 4,
            self._replace: 6,
            self._remove: 6,
            lambda: (LockHandle(Attempt(self._who(), self._key()), *self._somewhere()), b""): 6,
            lambda: (ReleaseHandle(Attempt(self._who(), self._key()), *self._somewhere()), b""): 6,
            lambda: (LockAll(Attempt(self._who(), self._key()), self._store()), b""): 3,
            lambda: (ReleaseAll(Attempt(self._who(), self._key()), self._store()), b""): 2,
            self._clear: 1,
            lambda: (Campaign(Attempt(self._who(), self._key()), "s0"), b""): 4 if campaigns else 0,
            lambda: (Resign(Attempt(self._who(), self._key()), "s0"), b""): 2 if campaigns else 0,
            self._end: 1,
            lambda: (self._look("get"), b""): 8,
            lambda: (self._look("state"), b""): 8,
            lambda: (self._look("list"), b""): 4,
            lambda: (self._look("epoch"), b""): 2,
            lambda: (Look("session", session=self._who()), b""): 1,
            lambda: (Look("stores"), b""): 1,
            self._announce: self._world.plan.uploads // 3,
            self._take: self._world.plan.uploads // 2,
            lambda: (self._look("redirect"), b""): self._world.plan.uploads // 4,
        }

    async def _act(self, ask: Ask, content: bytes) -> None:
        try:
            answer = await self._ask(ask, content)
        except SessionLost:
            self._leave()
        except MilepostError as error:
            self._board.refused(ask, error)
            if not isinstance(ask, Look) and hasattr(ask, "name"):
                self._held.discard((ask.store or "", ask.name))
        else:
            self._board.answered(ask, answer.body)
            if isinstance(ask, Add | LockHandle):
                self._held.add((ask.store_name, ask.name))
            elif isinstance(ask, Remove | ReleaseHandle):
                self._held.discard((ask.store_name, ask.name))
            elif isinstance(ask, EndSession):
                self._leave()
            elif isinstance(ask, CreateUpload):
                self._put(ask.store_name, answer, content)

    async def _ask(self, ask: Ask, content: bytes = b"") -> GoodAnswer:
        timeout = self._draw.uniform(1.0, 10.0) * self._world.plan.timeout
        return (await self._caller.call(ask, content, timeout))[0]

    def _write(self) -> tuple[Ask, bytes]:
        """What gets on best with what is known of some handle."""
        place, removes = self._somewhere(), self._draw.random() < self._world.plan.removals
        if self._board.is_absent(place):
            return self._add(place)
        if place in self._held:
            return self._remove(place) if removes else self._replace(place)
        return (Look("get", *place) if removes else LockHandle(Attempt(self._who(), self._key()), *place)), b""

    def _add(self, place: tuple[str, str] | None = None) -> tuple[Ask, bytes]:
        store, name = place or self._somewhere()
        content = self._content()
        labels = {"made": content.decode()} if self._draw.random() < 0.3 else {}
        epoch = self._board.epoch(store, self._draw)
        return Add(Attempt(self._who(), self._key_or_none()), store, name, epoch, blob_of(content), labels), content

    def _replace(self, place: tuple[str, str] | None = None) -> tuple[Ask, bytes]:
        store, name = place or self._somewhere()
        content = self._content()
        labels = {"made": content.decode()} if self._draw.random() < 0.3 else None
        epoch, version = self._board.epoch(store, self._draw), self._board.version((store, name), self._draw)
        return Replace(
            Attempt(self._who(), self._key_or_none()), store, name, epoch, version, blob_of(content), labels
        ), content

    def _remove(self, place: tuple[str, str] | None = None) -> tuple[Ask, bytes]:
        store, name = place or self._somewhere()
        version = self._board.version((store, name), self._draw) if self._draw.random() < 0.5 else None
        return Remove(
            Attempt(self._who(), self._key()), store, name, self._board.epoch(store, self._draw), version
        ), b""

    def _announce(self) -> tuple[Ask, bytes]:
        content = self._content()
        return CreateUpload(Attempt(self._who(), self._key_or_none()), self._store(), "", blob_of(content)), content

    def _put(self, store: str, answer: GoodAnswer, content: bytes) -> None:
        """Mostly at once; sometimes never, late, or other bytes. Any user who reads the board may take the upload."""
        fate, sent = self._draw.random(), content
        delay = self._draw.expovariate(1.0) * self._world.plan.blobs.latency
        if fate < 0.05:
            sent = content[::-1]
        elif fate < 0.15:
            delay = self._draw.uniform(0.0, 1.5) * min(self._world.plan.settings.upload_seconds, 60.0)
        if fate < 0.95:
            self._world.loop.call_later(delay, self._world.blobs.put_signed, answer.url, sent)
        self._board.uploads.append(Announced(store, answer.body["upload"], content))

    def _take(self) -> tuple[Ask, bytes]:
        """Add or replace a handle with an upload of anybody's, which may be used up, or not be there yet."""
        if not self._board.uploads:
            return self._announce()
        chosen = self._draw.choice(self._board.uploads)
        place = chosen.store, self._somewhere()[1]
        said = blob_of(chosen.content[::-1] if self._draw.random() < 0.05 else chosen.content)
        epoch, ref = self._board.epoch(chosen.store, self._draw), UploadRef(chosen.upload)
        acting = Attempt(self._who(), self._key()), *place, epoch
        if place in self._held:
            return Replace(*acting, self._board.version(place, self._draw), said, None, ref), b""
        return Add(*acting, said, {}, ref), b""

    def _clear(self) -> tuple[Ask, bytes]:
        store = self._store()
        return Clear(Attempt(self._who(), self._key()), store, self._board.epoch(store, self._draw)), b""

    def _end(self) -> tuple[Ask, bytes]:
        request: Request = EndSession(Attempt(self._session or "", self._key()))
        self._world.answers.leaves(request.session)
        return request, b""

    def _look(self, kind: Kind) -> Ask:
        store, name = self._somewhere()
        return Look(kind, store, name)

    # -- what is drawn ---------------------------------------------------------------------------------------------

    def _who(self) -> str:
        return self._before if self._before and self._draw.random() < 0.04 else self._session or ""

    def _store(self) -> str:
        return f"s{self._draw.randrange(self._world.plan.stores)}"

    def _somewhere(self) -> tuple[str, str]:
        return self._store(), f"h{self._draw.randrange(self._world.plan.handles)}"

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _key(self) -> str:
        return f"{self.name}.{self._number()}"

    def _key_or_none(self) -> str | None:
        """Some send no key. What they ask for is unlike any other request, so that it can be recognised without."""
        return self._key() if self._draw.random() < 0.9 else None

    def _content(self) -> bytes:
        return f"{self.name} {self._number()}".encode()
