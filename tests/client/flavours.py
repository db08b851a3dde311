"""Both flavours of the SDK behind one face, so that each behaviour is tested over both."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

import milepost
from milepost.aio import AsyncClient, AsyncJobFiles, AsyncSession, AsyncStateHandleStore


class Disguised:
    """An asynchronous object whose methods, iterators and blocks are used as if they were blocking."""

    def __init__(self, portal: BlockingPortal, target: Any) -> None:
        self._portal = portal
        self._target = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return self._dressed(value)

        def call(*arguments: Any, **named: Any) -> Any:
            async def run() -> Any:
                result = value(*arguments, **named)
                return await result if inspect.isawaitable(result) else result

            return self._dressed(self._portal.call(run))

        return call

    def _dressed(self, result: Any) -> Any:
        if isinstance(result, (AsyncClient, AsyncJobFiles, AsyncSession, AsyncStateHandleStore)):
            return Disguised(self._portal, result)
        if hasattr(result, "__anext__"):
            return self._iterated(result)
        if hasattr(result, "__aenter__"):
            return self._entered(result)
        return result

    def _iterated(self, items: Any) -> Iterator[Any]:
        while True:
            try:
                item = self._portal.call(items.__anext__)
            except StopAsyncIteration:
                return
            yield item

    @contextmanager
    def _entered(self, block: Any) -> Iterator[Any]:
        with self._portal.wrap_async_context_manager(block) as entered:
            yield self._dressed(entered)

    def __enter__(self) -> Disguised:
        self._block = self._portal.wrap_async_context_manager(self._target)
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._block.__exit__(*error)


@contextmanager
def connected(flavour: str, *arguments: Any, **named: Any) -> Iterator[Any]:
    """A client of the given flavour."""
    if flavour == "blocking":
        with milepost.Client(*arguments, **named) as client:
            yield client
        return
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(portal.call(lambda: AsyncClient(*arguments, **named))) as client,
    ):
        yield Disguised(portal, client)
