"""The working directory: it holds one checkpoint directory for each epoch, private to it and never used twice."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from milepost.errors import UnsafeQuery

_EPOCH = re.compile(r"\.?e(?P<epoch>\d+)(?P<rest>(?:\..+)?)\Z")


def default_workdir(master: str) -> Path:
    """Return a directory of this user below the system's temporary one, for a Spark that runs on this machine only.

    Raises `UnsafeQuery` for a cluster, whose executors would not see it, and if the directory belongs to somebody else.
    """
    if not re.match(r"local\b", master):
        raise UnsafeQuery(
            f"Spark runs on {master}: its executors keep state in the checkpoint directory, so give lead() a workdir= "
            "that is mounted at the same path on the driver and on every executor"
        )
    workdir = Path(tempfile.gettempdir()) / f"milepost-{os.getuid()}"
    workdir.mkdir(mode=0o700, exist_ok=True)
    if workdir.is_symlink() or workdir.stat().st_uid != os.getuid():
        raise UnsafeQuery(f"{workdir} belongs to somebody else; give lead() a workdir= of your own")
    return workdir


def remove_older(directory: Path, epoch: int) -> None:
    """Delete what drivers of older epochs left in ``directory``; an older driver that still runs there is fenced."""
    for entry, _ in _older(directory, epoch):
        _remove(entry)


def remove_unfinished(directory: Path, epoch: int) -> None:
    """Delete what drivers of older epochs did not finish: half a directory, half an archive. Nobody can use that."""
    for entry, whole in _older(directory, epoch):
        if not whole:
            _remove(entry)


def _older(directory: Path, epoch: int) -> list[tuple[Path, bool]]:
    """Return what belongs to older epochs, each with whether it is a finished directory."""
    if not directory.is_dir():
        return []
    found = ((entry, _EPOCH.match(entry.name)) for entry in directory.iterdir())
    return [(entry, match["rest"] == "") for entry, match in found if match and int(match["epoch"]) < epoch]


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
