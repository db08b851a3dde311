"""Shows the progress of a transfer: bytes, rate and remaining time.

The bar is shown only on a terminal, and only if the transfer takes longer than a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOWN_AFTER = 1.0

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Show no progress on a terminal.")]


class Bar:
    """A progress bar on stderr. It appears once a transfer has taken a second, and disappears at its end.

    ``what`` is the text beside the bar. ``total`` is the number of bytes, None if unknown. Without ``shown`` the bar
    never appears.
    """

    def __init__(self, what: str, total: int | None, *, shown: bool) -> None:
        self._what = what
        self._total = total
        self._shown = shown
        self._since = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self.done = 0

    def advance(self, count: int) -> None:
        """Add ``count`` to the number of transferred bytes."""
        self.done += count
        if not self._shown:
            return
        if self._progress is None and time.monotonic() - self._since >= SHOWN_AFTER:
            self._progress = _progress()
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=self._total)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self.done)

    def report_progress(self, done: int, _total: int | None) -> None:
        """Show the progress that the SDK reports: ``done`` bytes of the present attempt, so the bar goes back when a
        retry begins at 0.
        """
        self.advance(done - self.done)

    def name(self, what: str) -> None:
        """Set the text beside the bar, such as the name of the present store."""
        self._what = what
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=what)

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks, and add their bytes to the number of transferred bytes."""
        for chunk in chunks:
            self.advance(len(chunk))
            yield chunk

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def transfer(what: str, total: int | None, *, quiet: bool, no_progress: bool) -> Iterator[Bar]:
    """Yield a progress bar, labelled ``what``, for a transfer of ``total`` bytes (None: unknown). It is not shown with
    ``quiet`` or ``no_progress``, or if stderr is not a terminal.
    """
    with Bar(what, total, shown=not (quiet or no_progress) and sys.stderr.isatty()) as bar:
        yield bar


def _progress() -> Progress:
    """Return a new bar of the library rich, which is imported only here, since most commands never show a bar."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
