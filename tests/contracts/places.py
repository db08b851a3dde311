"""What the suites need to know of a backend, and the places that it keeps things in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pytest

from tests.support.run_services import RunServices


class Resource(Protocol):
    """What all three contracts have in common."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


R = TypeVar("R", bound=Resource)
S = TypeVar("S")


class Services:
    """Real services that some backends need, each started when first asked for and ended with the test session.

    ``run`` has those that all processes of a run share; without it this process shares them with none.
    """

    def __init__(self, ends: ExitStack, directory: Path, run: RunServices | None = None) -> None:
        self.directory = directory
        self._ends = ends
        self._run = run
        self._running: dict[str, Any] = {}

    def get(self, name: str, start: Callable[[Path], AbstractContextManager[S]]) -> S:
        """What ``start`` yields, given a directory of its own; started once under each ``name``."""
        if name not in self._running:
            directory = self.directory / name
            directory.mkdir()
            self._running[name] = self._ends.enter_context(start(directory))
        running: S = self._running[name]
        return running

    def of_run(self, name: str, start: Callable[[Path], AbstractContextManager[S]]) -> S:
        """The same, but started once for all processes of the run: ``start`` and what it yields are pickled."""
        return self._run.get(name, start) if self._run is not None else self.get(name, start)


@dataclass(frozen=True)
class Backend(Generic[R]):
    """One backend as the suites see it.

    ``fresh`` makes an empty place and returns its address, a string from which ``build`` makes an unopened object, in
    this process or another; an election's ``build`` takes the advertised URL as well. ``marks`` name the suite that its
    cases belong to, where that is not ``make test``. A place that is not ``shared`` lies within one process.
    """

    name: str
    fresh: Callable[[Path, Services], str]
    build: Callable[..., R]
    marks: tuple[pytest.MarkDecorator, ...] = ()
    shared: bool = True


def cases(backends: Iterable[Backend[R]], *, shared: bool = False) -> list[pytest.ParameterSet]:
    """Make parameters of a fixture of backends, each under its name and in its suite.

    ``shared`` leaves out those whose places no other process can reach, for tests with several processes.
    """
    chosen = [backend for backend in backends if backend.shared or not shared]
    return [pytest.param(backend, id=backend.name, marks=backend.marks) for backend in chosen]


@dataclass(frozen=True)
class Place(Generic[R]):
    """One fresh place of one backend, which any number of objects in any number of processes may share."""

    backend: Backend[R]
    address: str

    def build(self, *arguments: object) -> R:
        """A new object on this place, not yet open."""
        return self.backend.build(self.address, *arguments)

    @asynccontextmanager
    async def opened(self, *arguments: object) -> AsyncIterator[R]:
        """A new object on this place, open."""
        resource = self.build(*arguments)
        await resource.open()
        try:
            yield resource
        finally:
            await resource.close()
