"""Handles files on local disks: checks that a directory is on one, keeps files private, and makes new names durable.

An ``flock`` and SQLite's shared memory work between the processes of one machine. On a network file system two machines
can both believe that they hold the same lock. So the embedded backend refuses a directory on a network file system.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from pathlib import Path
from typing import Final, NamedTuple

from milepost_backends.contract import Misconfigured

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
"""The mode of new directories. Only the server's own user may read the data, which may contain anything that a job
computes.
"""

PERMANENT_ERRORS: Final = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENOTSUP,
        errno.ENOLCK,
        errno.ELOOP,
        errno.ENAMETOOLONG,
    }
)
"""The errors with which the system refuses a call until an operator changes rights, paths or the file system."""

log = logging.getLogger(__name__)

MOUNTINFO = Path("/proc/self/mountinfo")

SHARED_TYPES = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs",
        "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "panfs", "wekafs",
    }
)  # fmt: skip
SHARED_FUSE = frozenset(
    {
        "sshfs", "glusterfs", "ceph", "ceph-fuse", "cephfs", "s3fs", "goofys", "gcsfuse", "blobfuse", "blobfuse2",
        "rclone", "juicefs", "davfs", "curlftpfs", "moosefs", "mfs", "lizardfs", "hdfs", "seaweedfs", "smbnetfs",
        "vmhgfs-fuse", "mount-s3", "mountpoint-s3", "grpcfuse", "alluxio-fuse",
    }
)  # fmt: skip


class FileIdentity(NamedTuple):
    """The identity of a file: its device and inode. Later the same path may name another file, or none."""

    device: int
    inode: int

    @classmethod
    def of(cls, target: Path | int) -> FileIdentity | None:
        """Return the identity of the file at a path or behind a file descriptor; None if the path names nothing."""
        try:
            status = os.stat(target)
        except FileNotFoundError:
            return None
        return cls(status.st_dev, status.st_ino)


def mount_type(path: Path, mountinfo: str) -> str | None:
    """Return the type of the file system that contains ``path``, such as ``ext4``; None if no mount point covers it.

    ``path`` is absolute, with links resolved. ``mountinfo`` is the text of the file ``/proc/self/mountinfo``, see
    mountinfo(5). Of two mounts on one mount point the later one counts, since it hides the earlier one.
    """
    found: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(_unescaped(fields[4]))
        depth = len(point.parts)
        if path.is_relative_to(point) and (found is None or depth >= found[0]):
            found = (depth, after.split(" ", 1)[0])
    return found[1] if found else None


def _unescaped(field: str) -> str:
    """Return a field of mountinfo(5) with its escapes resolved.

    It has each space, tab, newline and backslash as a backslash and octal digits.
    """
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def is_shared(type_: str) -> bool:
    """Return whether several machines can mount a file system of this type at once."""
    kind, _, helper = type_.partition(".")
    return type_ in SHARED_TYPES or (kind == "fuse" and helper in SHARED_FUSE)


def lies_on_shared(directory: Path) -> bool:
    """Return whether ``directory`` is on a network file system, as far as that can be determined (only on Linux)."""
    try:
        mountinfo = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    type_ = mount_type(directory.resolve(), mountinfo)
    return type_ is not None and is_shared(type_)


def require_local(directory: Path) -> None:
    """Raise `Misconfigured` if ``directory``, which need not exist yet, is on a network file system.

    Without a mountinfo (on systems other than Linux) this cannot be determined, and nothing is refused.
    """
    try:
        mountinfo = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    type_ = mount_type(directory.resolve(), mountinfo)
    if type_ is not None and is_shared(type_):
        raise Misconfigured(
            f"{directory} is on a {type_} file system, where locks do not hold between machines; use a local disk"
        )


def sync_directory(directory: Path) -> None:
    """Make the names of the files in ``directory`` durable: sync the directory itself. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_durable_directory(directory: Path) -> None:
    """Make ``directory`` and its missing parents, and sync each new name in its parent directory. Raises OSError."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        if directory.parent == directory:
            break
        directory = directory.parent
    for each in reversed(missing):
        each.mkdir(PRIVATE_DIRECTORY, exist_ok=True)
        sync_directory(each.parent)


def keep_private(path: Path) -> None:
    """Remove the rights of group and others on an existing file of the server's own user.

    A directory, or a file of another user, keeps its rights, and a warning is logged: their creator may have intended
    the rights. A path that names nothing is ignored. Raises OSError.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    open_to_others = stat.S_IMODE(status.st_mode) & 0o077
    if not open_to_others or stat.S_ISLNK(status.st_mode):
        return
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        path.chmod(stat.S_IMODE(status.st_mode) & ~0o077)
        log.info("took all rights of other users from %s (its mode was %o)", path, status.st_mode & 0o777)
    else:
        advice = "to keep them out, run chmod go= on it"
        log.warning("other users may read or enter %s (mode %o); %s", path, status.st_mode & 0o777, advice)
