"""Get the credentials for the API server in a thread of its own: a plugin that hangs then costs only time.

The Kubernetes client runs plugins and asks for tokens without a limit. Threads that hang in that are left behind; they
are daemons, so that the process can end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any, Final, TypeVar

from milepost_backends.kubernetes.configuration import authorization
from milepost_backends.kubernetes.errors import NotSent
from milepost_backends.waiting import begin_in_thread

T = TypeVar("T")

_HUNG_SECONDS: Final = 30.0
_NAME: Final = "kubernetes-credentials"
_LEFT_BEHIND: Final = 32
"""At most so many threads may hang, in the whole process. Each may have a plugin's process under it."""


class Credentials:
    """The credentials give the authenticating header of each request. One thread asks for it, for all that wait.

    A thread that has taken ``hung_after`` seconds is given up, so that a plugin which works again is noticed.
    """

    def __init__(self, configuration: Any, *, hung_after: float = _HUNG_SECONDS) -> None:
        self._configuration = configuration
        self._hung_after = hung_after
        self._lock = Lock()
        self._asked: Future[dict[str, str]] | None = None
        self._since = 0.0

    def header(self, deadline: float) -> dict[str, str]:
        """Wait for the header until ``deadline`` (monotonic), in a thread of the caller's. Raises `NotSent`."""
        try:
            return self._asking().result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise NotSent("no credentials: the credential plugin has not answered") from None

    def _asking(self) -> Future[dict[str, str]]:
        with self._lock:
            now = time.monotonic()
            if self._asked is None or self._asked.done() or now - self._since >= self._hung_after:
                self._asked, self._since = begin(lambda: authorization(self._configuration)), now
            return self._asked


def begin(call: Callable[[], T]) -> Future[T]:
    """Run ``call`` in a new thread, which is left behind if it hangs. Raises `NotSent` if too many already hang."""
    if sum(thread.name == _NAME for thread in threading.enumerate()) >= _LEFT_BEHIND:
        raise NotSent("no credentials: too many calls of the credential plugin hang")
    return begin_in_thread(call, _NAME)
