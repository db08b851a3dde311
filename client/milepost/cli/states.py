"""The commands about states: `put`, `get` and `rm`."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from milepost.cli.acting import Campaign, InSession, UnderEpoch, changing
from milepost.cli.errors import ExitCode
from milepost.cli.options import Name, Options, Store, Version, shared
from milepost.cli.output import report, show
from milepost.cli.progress import NoProgress, Quiet, transfer
from milepost.errors import AccessDenied
from milepost.store import StateHandleStore

_STANDARD = Path("-")

Source = Annotated[Path, typer.Argument(help="File with the state; - is standard input.")]
Target = Annotated[Path, typer.Argument(help="File to write the state to; - is standard output.")]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="A label; may be repeated.")]


@shared
def put(
    context: typer.Context,
    store: Store,
    name: Name,
    file: Source = _STANDARD,
    version: Version = None,
    new: Annotated[bool, typer.Option("--new", help="Only if there is no such handle.")] = False,
    label: Labels = None,
    session: InSession = None,
    epoch: UnderEpoch = None,
    campaign: Campaign = False,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> None:
    """Set the state of a handle, from a file or standard input.

    A handle that does not exist is added. The output is the handle's record. The command fails if another client
    replaces the state at the same time.
    """
    if new and version is not None:
        raise typer.BadParameter("is for a handle that has no version yet", param_hint="'--new'")
    labels = _labels(label) if label else None
    with (
        _opened(file) as source,
        changing(context, store, session, epoch, campaign, begin=True) as opened,
        transfer(name, _size_of(source), quiet=quiet, no_progress=no_progress) as bar,
    ):
        if new or (version is None and not _is_there(opened, name)):
            handle = opened.add_and_lock(name, source, labels, progress=bar.report_progress)
        else:
            locked = opened.get_and_lock(name)
            current = locked.version if version is None else version
            handle = opened.replace(name, current, source, labels, progress=bar.report_progress)
    if session is None:  # the command's own session has ended, and its lock with it
        handle = replace(handle, locks=tuple(lock for lock in handle.locks if lock != opened.session_id))
    if not quiet:
        show(context, handle)


@shared
def get(
    context: typer.Context,
    store: Store,
    name: Name,
    file: Target = _STANDARD,
    version: Version = None,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> None:
    """Write the state of a handle to a file or standard output.

    The bytes are verified, and a file appears under its name only once it is whole.
    """
    options: Options = context.obj
    if not file.parent.is_dir():
        raise typer.BadParameter(f"there is no directory {str(file.parent)!r}", param_hint="'file'")
    with (
        options.client() as client,
        client.store(store).open(name, version) as chunks,
        transfer(name, None, quiet=quiet, no_progress=no_progress) as bar,
    ):
        if file == _STANDARD:
            for chunk in bar.counted(chunks):
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            return
        size = copied(bar.counted(chunks), file)
    if not quiet:
        report(context, f"{size} bytes are in {file}", file=str(file), bytes=size)


@shared
def rm(
    context: typer.Context,
    store: Store,
    name: Name,
    version: Version = None,
    session: InSession = None,
    epoch: UnderEpoch = None,
    campaign: Campaign = False,
) -> None:
    """Remove a handle with its state, unless sessions hold it.

    The command first releases a lock of its own session. It fails while other sessions hold a lock. A handle that does
    not exist counts as removed.
    """
    with changing(context, store, session, epoch, campaign) as opened:
        removal = opened.release_and_try_remove(name, version)
    held = ", ".join(removal.locks)
    report(
        context,
        f"{name} is removed" if removal.removed else f"{name} is not removed, because sessions hold it: {held}",
        removed=removal.removed,
        locks=list(removal.locks),
    )
    if not removal.removed:
        raise typer.Exit(ExitCode.REFUSED)


def _is_there(store: StateHandleStore, name: str) -> bool:
    """Return whether a handle exists.

    Return False also if the token may not read the store: the write that follows then fails with an error that names
    the missing right.
    """
    try:
        return store.exists(name) is not None
    except AccessDenied:
        return False


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file == _STANDARD:
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be read: {error.strerror}", param_hint="'file'") from error
    with opened:
        yield opened


def _size_of(source: BinaryIO) -> int | None:
    """Return the size of a regular file in bytes; None for any other file, such as a pipe."""
    try:
        status = os.fstat(source.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _labels(given: list[str]) -> dict[str, str]:
    pairs = [label.partition("=") for label in given]
    for key, separator, _ in pairs:
        if not separator:
            raise typer.BadParameter(f"takes KEY=VALUE, not {key!r}", param_hint="'--label'")
    return {key: value for key, _, value in pairs}


def copied(chunks: Iterable[bytes], target: Path) -> int:
    """Write all chunks to a temporary file beside ``target``, then rename it to ``target``; return the number of bytes.

    If an error ends the writing, an existing ``target`` stays as it was. If ``target`` is a symbolic link, the link is
    followed. If it is not a regular file (a pipe, a terminal), it is written directly.
    """
    final = target.resolve()
    if final.exists() and not final.is_file():
        return _written(chunks, final, "wb")
    part = final.with_name(f".{final.name[:200]}.{uuid.uuid4().hex[:8]}.part")
    try:
        size = _written(chunks, part, "xb")
        if final.exists():
            shutil.copymode(final, part)
        part.replace(final)
    finally:
        part.unlink(missing_ok=True)
    return size


def _written(chunks: Iterable[bytes], path: Path, mode: str) -> int:
    size = 0
    with path.open(mode) as file:
        for chunk in chunks:
            size += file.write(chunk)
        file.flush()
        if mode == "xb":
            os.fsync(file.fileno())
    return size
