"""Runs one step in a thread of its own, beside another step that needs it only at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class Beside:
    """Runs ``step`` beside the block of ``with Beside(step) as other:``. The block ends only after ``step`` has; `join`
    waits for it earlier.

    An exception of ``step`` is raised by `join` and at the end of the block. There it replaces an exception of the
    block itself: a block that fails while its step is refused fails because of the refusal.
    """

    def __init__(self, step: Callable[[], None], name: str) -> None:
        self._step = step
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def join(self) -> None:
        """Wait for the end of the step, and raise its exception if there was one."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join()
        if self._error is not None and error is not self._error:
            raise self._error from error

    def _run(self) -> None:
        try:
            self._step()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the step
            self._error = error
