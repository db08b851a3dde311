"""Asks on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from milepost.cli.exit_codes import ExitCode


@contextmanager
def asking() -> Iterator[None]:
    """Let Ctrl-C at a question end the command as it does anywhere else, and not as one that was refused."""
    try:
        yield
    except typer.Abort as stopped:  # click says this of the end of input, too
        if isinstance(stopped.__context__, KeyboardInterrupt):
            raise typer.Exit(ExitCode.INTERRUPTED) from stopped
        raise
