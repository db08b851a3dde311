"""The newest attempt of a key stands for it; an older one that has not submitted anything yet never will.

`Attempts` joins a retry to the request that is on its way. An attempt whose bytes still come in, or that waits between
two requests, has none there: were the retry refused meanwhile, "not applied" would be told of a key that the older
attempt applies later. It is not waited for either, since the connection that it reads from may be long dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from milepost.wire import Code
from service.problems import problem
from service.rules.state import KeyScope


class Claims:
    """Which attempt is the newest under each key."""

    def __init__(self) -> None:
        self._newest: dict[KeyScope, object] = {}

    @contextmanager
    def newest(self, scope: KeyScope) -> Iterator[Callable[[], None]]:
        """An attempt of the key, newer than all that are here. What it is given is called right before it submits:
        it raises an ``outcome-unknown`` problem once there is, or was, a newer one.
        """
        mark = object()
        self._newest[scope] = mark

        def check() -> None:
            if self._newest.get(scope) is not mark:
                raise problem(Code.OUTCOME_UNKNOWN, "a newer attempt of this key has taken the place of this one")

        try:
            yield check
        finally:
            if self._newest.get(scope) is mark:
                del self._newest[scope]
