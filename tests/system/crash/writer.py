"""A client that writes, remembers what was acknowledged, and after each crash holds the service to it."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import deque
from dataclasses import dataclass

import httpx

from milepost.wire import API, Header, digest_header, quote_version, unquote_version
from tests.system.crash.wire import Act, Wire, is_unknown

SIZES = (0, 1, 100, 4_096, 70_000, 300_000)
OWN_NAMES = 5
SHARED_NAMES = 4
SHARED_STORE = "shared"
REPLAYS = 3
TTL_SECONDS = 3600


@dataclass(frozen=True)
class Kept:
    """A handle as it was acknowledged."""

    version: str
    state: bytes


@dataclass(frozen=True)
class Grown:
    """An acknowledged version of a handle that all clients write, and the one it replaced, if it did."""

    name: str
    version: str
    instead_of: str | None


class Writer:
    """One client. Nobody else writes to its own store, so what is there is known exactly; all write to the shared one.

    Its own store is fenced by an epoch, which the client was granted once and must never lose.
    """

    def __init__(self, url: str, number: int, seed: int) -> None:
        self.session = f"writer-{number}"
        self.own_store = f"own-{number}"
        self.random = random.Random(f"{seed}/{number}")
        self.wire = Wire(httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60.0), self.random)
        self.kept: dict[str, Kept | None] = {f"own-{name}": None for name in range(OWN_NAMES)}
        self.grown: list[Grown] = []
        self._stale: dict[str, str] = {}
        self._answers: deque[tuple[Act, httpx.Response]] = deque(maxlen=20)
        self._keys = 0

    # -- life ------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Open the session, and win the epoch of the own store."""
        opened = self.wire.http.post(f"{API}/sessions", json={"session": self.session, "ttl": TTL_SECONDS})
        assert opened.status_code == 201, opened.text
        epoch = self._do("POST", f"{API}/stores/{self.own_store}/epoch", fenced=False)
        assert (epoch.status_code, epoch.json()["epoch"]) == (200, 1), epoch.text

    def close(self) -> None:
        """Let go of the connection."""
        self.wire.http.close()

    def run(self, stop: threading.Event) -> None:
        """Write until told to stop; look after each crash."""
        while not stop.is_set():
            if self.random.random() < 0.75:
                self._write_own(self.random.choice(list(self.kept)))
            else:
                self._write_shared(f"shared-{self.random.randrange(SHARED_NAMES)}")
            if self.wire.crashed:
                self.wire.crashed = False
                self.replay()
                self.verify()

    # -- what was acknowledged stands ------------------------------------------------------------------------------

    def verify(self) -> None:
        """Every own handle is as it was acknowledged: there, whole and at its version, or gone."""
        for name, kept in self.kept.items():
            answer = self.wire.get(f"{self._own(name)}/state")
            if kept is None:
                assert answer.status_code == 404, f"{name} was removed: {answer.status_code} {answer.text[:300]}"
                continue
            assert answer.status_code == 200, f"{name} was acknowledged: {answer.text[:300]}"
            assert unquote_version(answer.headers[Header.ETAG]) == kept.version, name
            assert answer.content == kept.state, f"{name} has other bytes than were acknowledged"

    def replay(self) -> None:
        """Keys that were answered before are answered the same again, and nothing is applied twice."""
        for act, first in self.random.sample(list(self._answers), min(REPLAYS, len(self._answers))):
            again = self.wire.act(act)
            assert again.status_code == first.status_code, f"{act.method} {act.path}: {again.text[:300]}"
            assert again.json() == first.json(), f"{act.method} {act.path}"
            assert again.headers.get(Header.REPLAYED) == "true", f"{act.method} {act.path}"

    # -- writing ---------------------------------------------------------------------------------------------------

    def _write_own(self, name: str) -> None:
        kept = self.kept[name]
        if kept is None:
            self._add_own(name)
            return
        match self.random.randrange(10):
            case 0 | 1 | 2:
                self._remove_own(name)
            case 3:
                self._refused_own(name, kept)
            case _:
                self._replace_own(name, kept)

    def _add_own(self, name: str) -> None:
        state = self._state()
        answer = self._do("POST", self._own(name), state)
        if is_unknown(answer):
            found = self._found(name)
            assert found is None or found.state == state, f"{name} is neither absent nor what was to be added"
            if found is not None:
                self._grow_own(name, found)
            return
        self._keep(name, state, answer, 201)

    def _replace_own(self, name: str, kept: Kept) -> None:
        state = self._state()
        self._keep(name, state, self._do("PUT", self._own(name), state, match=kept.version), 200)

    def _remove_own(self, name: str) -> None:
        answer, kept = self._do("DELETE", self._own(name)), self.kept[name]
        assert kept is not None
        if is_unknown(answer):
            found = self._found(name)
            assert found in (None, kept), f"{name} is neither removed nor what it was"
            if found is not None:
                return
        else:
            assert (answer.status_code, answer.json()) == (200, {"removed": True}), answer.text
        self._stale[name], self.kept[name] = kept.version, None

    def _found(self, name: str) -> Kept | None:
        """What is there, for a client that was told nothing certain."""
        answer = self.wire.get(f"{self._own(name)}/state")
        if answer.status_code == 404:
            return None
        version = unquote_version(answer.headers[Header.ETAG])
        assert version is not None
        return Kept(version, answer.content)

    def _refused_own(self, name: str, kept: Kept) -> None:
        """Neither a second add nor a replace of an older version is ever let through."""
        added = self._do("POST", self._own(name), b"second", remember=False)
        assert (added.status_code, added.json()["type"]) == (409, "urn:milepost:already-exists"), added.text
        if (stale := self._stale.get(name)) is not None:
            replaced = self._do("PUT", self._own(name), b"late", match=stale, remember=False)
            assert (replaced.status_code, replaced.json()["current"]) == (412, kept.version), replaced.text

    def _keep(self, name: str, state: bytes, answer: httpx.Response, status: int) -> None:
        assert answer.status_code == status, f"{name}: {answer.text[:300]}"
        self._grow_own(name, Kept(answer.json()["version"], state))

    def _grow_own(self, name: str, new: Kept) -> None:
        old, self.kept[name] = self.kept[name], new
        if old is not None:
            self._stale[name] = old.version
        self.grown.append(Grown(f"{self.own_store}/{name}", new.version, old.version if old else None))

    def _write_shared(self, name: str) -> None:
        path = f"{API}/stores/{SHARED_STORE}/handles/{name}"
        match self.random.randrange(8):
            case 0:
                removed = self._do("DELETE", path, fenced=False, remember=False)
                assert removed.status_code == 200 or is_unknown(removed), removed.text
            case 1:
                released = self._do("DELETE", f"{path}/lock", fenced=False, remember=False)
                assert released.status_code == 204 or is_unknown(released), released.text
            case 2 | 3:
                self._grow(name, self._do("POST", path, self._state(), fenced=False, remember=False), {409})
            case _:
                locked = self._do("POST", f"{path}/lock", fenced=False, remember=False)
                if locked.status_code == 404 or is_unknown(locked):
                    return
                assert locked.status_code == 200, locked.text
                base = locked.json()["version"]
                answer = self._do("PUT", path, self._state(), match=base, fenced=False, remember=False)
                self._grow(name, answer, {404, 409, 412}, base)

    def _grow(self, name: str, answer: httpx.Response, refusals: set[int], base: str | None = None) -> None:
        if answer.status_code not in refusals and not is_unknown(answer):
            assert answer.status_code in (200, 201), answer.text[:300]
            self.grown.append(Grown(f"{SHARED_STORE}/{name}", answer.json()["version"], base))

    # -- requests --------------------------------------------------------------------------------------------------

    def _own(self, name: str) -> str:
        return f"{API}/stores/{self.own_store}/handles/{name}"

    def _state(self) -> bytes:
        return self.random.randbytes(self.random.choice(SIZES))

    def _do(
        self,
        method: str,
        path: str,
        state: bytes | None = None,
        *,
        match: str | None = None,
        fenced: bool = True,
        remember: bool = True,
    ) -> httpx.Response:
        headers = {Header.SESSION: self.session}
        if fenced:
            headers[Header.EPOCH] = "1"
        if match is not None:
            headers[Header.IF_MATCH] = quote_version(match)
        if state is not None:
            headers[Header.CONTENT_DIGEST] = digest_header(hashlib.sha256(state).hexdigest())
        self._keys += 1
        act = Act(method, path, f"{self.session}-{self._keys}", headers, state)
        answer = self.wire.act(act)
        if remember and answer.is_success:
            self._answers.append((act, answer))
        return answer
