"""One step that runs in a thread of its own, beside another that does not need it before its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class Beside:
    """``with Beside(step) as other:`` the block may end only after ``step`` has; `join` waits for it earlier.

    What ``step`` raises is raised by `join` and at the end of the block, also in place of what the block itself raised:
    a block that fails beside a refusal fails for want of what was refused.
    """

    def __init__(self, step: Callable[[], None], name: str) -> None:
        self._step = step
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def join(self) -> None:
        """Wait for the step. Raises what it raised."""
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
        except BaseException as error:  # noqa: BLE001 - raised where the step is waited for
            self._error = error
