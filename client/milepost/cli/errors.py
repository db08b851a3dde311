"""What errors mean for the commands: the exit code, the line on stderr, and whether stored bytes are damaged.

``milepost run`` has exit codes of its own, because it also ends with those of the command that it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from milepost.errors import (
    ConnectionFailed,
    Damaged,
    DeadlineExceeded,
    DiscardFailed,
    InvalidName,
    LabelsLost,
    MilepostError,
    NotExist,
    Problem,
    ServerFault,
    StateTruncated,
    Unavailable,
    VersionMismatch,
)
from milepost.wire import Outcome


class ExitCode(IntEnum):
    """The exit codes of the commands."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNAVAILABLE = 3
    OUTCOME_UNKNOWN = 4
    INTERRUPTED = 130  # 128 plus the number of SIGINT, as in shells


_UNAVAILABLE = (Unavailable, ConnectionFailed, DeadlineExceeded, StateTruncated, ServerFault, DiscardFailed)


def exit_code(error: Exception) -> ExitCode:
    """Return the exit code for an error of the SDK, or an OSError of a local file."""
    if isinstance(error, LabelsLost) or (isinstance(error, Problem) and error.outcome is Outcome.UNKNOWN):
        return ExitCode.OUTCOME_UNKNOWN
    if isinstance(error, _UNAVAILABLE):
        return ExitCode.UNAVAILABLE
    if isinstance(error, InvalidName):
        return ExitCode.USAGE
    return ExitCode.REFUSED


@contextmanager
def errors_end_the_command(code: int | None = None) -> Iterator[None]:
    """Let an error end the command, with a line on stderr and its exit code. ``code`` overrides the exit code."""
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe has ended: typer ends the command without a message
        raise
    except (MilepostError, OSError) as error:
        say(error)
        raise typer.Exit(exit_code(error) if code is None else code) from error


def say(error: Exception) -> None:
    """Print the error on stderr, as one line."""
    typer.echo(line_about(error), err=True)


def line_about(error: Exception) -> str:
    """Return the error as a line: its type and its text, without the code of a problem if that is the same as the
    type, as in `NotExist`.
    """
    kind, text = type(error).__name__, str(error)
    if isinstance(error, Problem) and error.detail and error.code.value.replace("-", "") == kind.lower():
        text = error.detail
    return f"{kind}: {text}"


@contextmanager
def asking() -> Iterator[None]:
    """Let Ctrl-C end the command with the usual exit code, 130, while the block asks the user a question."""
    try:
        yield
    except typer.Abort as stopped:  # click raises Abort for Ctrl-C and for the end of input
        if isinstance(stopped.__context__, KeyboardInterrupt):
            raise typer.Exit(ExitCode.INTERRUPTED) from stopped
        raise


def is_damage(error: MilepostError) -> bool:
    """Return whether an error says that stored bytes are damaged.

    A `StateTruncated` does, unless its cause is an error that prevented reading the rest.
    """
    if isinstance(error, StateTruncated):
        return error.__cause__ is None or isinstance(error.__cause__, Damaged)
    return isinstance(error, Damaged)


def is_outdated(error: MilepostError) -> bool:
    """Return whether a state was replaced or removed while it was read, so that its rest cannot be read."""
    return isinstance(error, StateTruncated) and isinstance(error.__cause__, (NotExist, VersionMismatch))
