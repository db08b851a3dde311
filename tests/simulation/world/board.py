"""What clients know between them: the newest epoch of each store, and the versions that they saw of each handle."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, NamedTuple

from milepost.errors import MilepostError, Problem
from milepost.wire import Code
from milepost_server.model.requests.handles import Add, Campaign, Clear, LockHandle, Remove, Replace
from tests.simulation.callers.calls import Ask, Look

Place = tuple[str, str]


class Announced(NamedTuple):
    """An upload that somebody announced; anybody may take it."""

    store: str
    upload: str
    content: bytes


class Board:
    """Shared by all clients, and now and then out of date, as it is meant to be."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._versions: dict[Place, deque[str]] = {}
        self._present: set[Place] = set()
        self.uploads: deque[Announced] = deque(maxlen=8)

    def epoch(self, store: str, draw: Random) -> int | None:
        """The epoch to act under: mostly the newest, sometimes an older one, one never granted, or none."""
        newest = self._epochs.get(store, 0)
        chance = draw.random()
        if chance < 0.05:
            return None
        if chance < 0.15:
            return max(0, newest + draw.choice((-2, -1, 1)))
        return newest or None

    def version(self, place: Place, draw: Random) -> str:
        """A version of a handle: mostly the newest that was seen."""
        versions = self._versions.get(place)
        if not versions:
            return "none"
        return versions[-1] if draw.random() < 0.85 else draw.choice(versions)

    def is_absent(self, place: Place) -> bool:
        """Whether there seems to be no such handle."""
        return place not in self._present

    def answered(self, ask: Ask, body: Any) -> None:
        """Somebody got a good answer."""
        match ask:
            case Add() | Replace() | LockHandle():
                self._saw((ask.store_name, ask.name), body["version"])
            case Look(kind="get"):
                self._saw((ask.store, ask.name), body["version"])
            case Remove():
                self._present.discard((ask.store_name, ask.name))
            case Clear():
                self._present = {place for place in self._present if place[0] != ask.store_name}
            case Campaign():
                self._epochs[ask.store_name] = max(body["epoch"], self._epochs.get(ask.store_name, 0))
            case _:
                pass

    def refused(self, ask: Ask, error: MilepostError) -> None:
        """Somebody was refused."""
        if not isinstance(error, Problem):
            return
        store = ask.store or ""
        place = (store, getattr(ask, "name", ""))
        match error.code:
            case Code.NOT_EXIST:
                self._present.discard(place)
            case Code.ALREADY_EXISTS | Code.VERSION_MISMATCH:
                self._saw(place, error.extras["current"])
            case Code.FENCED:
                self._epochs[store] = max(error.extras["current"], self._epochs.get(store, 0))
            case _:
                pass

    def _saw(self, place: Place, version: str) -> None:
        versions = self._versions.setdefault(place, deque(maxlen=6))
        if not versions or versions[-1] != version:
            versions.append(version)
        self._present.add(place)
