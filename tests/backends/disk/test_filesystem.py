"""Which file system a path lies on, which file a path names, and names that last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost_backends.contract import Misconfigured
from milepost_backends.disk import filesystem as local_filesystem
from milepost_backends.disk.filesystem import FileIdentity, is_shared, make_durable_directory, mount_type, require_local

MOUNTINFO = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:40 / /home rw,relatime shared:2 master:3 - nfs4 server:/export/home rw,vers=4.2
41 40 8:1 / /home/local rw,relatime - xfs /dev/sda1 rw
42 27 0:42 / /mnt/with\040space rw,relatime - cifs //server/share rw
43 27 0:43 / /mnt/twice rw,relatime - ext4 /dev/sdb rw
44 43 0:44 / /mnt/twice rw,relatime - fuse.sshfs me@server:/ rw
45 27 0:45 / /mnt/disk rw,relatime - fuseblk /dev/sdc rw
a line that is not one of mountinfo
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "ext4"),
        ("/var/lib/milepost", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/data", "nfs4"),
        ("/homely", "ext4"),
        ("/home/local/data", "xfs"),
        ("/mnt/with space/data", "cifs"),
        ("/mnt/twice/data", "fuse.sshfs"),
        ("/mnt/disk/data", "fuseblk"),
    ],
)
def test_the_nearest_mount_counts_and_the_last_of_equals(path: str, expected: str) -> None:
    assert mount_type(Path(path), MOUNTINFO) == expected


def test_without_a_mount_there_is_no_type() -> None:
    assert mount_type(Path("/var"), "") is None
    assert mount_type(Path("/var"), "40 27 0:40 / /home rw - nfs4 server:/export rw") is None


@pytest.mark.parametrize(
    "shared", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "fuse.glusterfs", "lustre", "afs", "virtiofs"]
)
def test_file_systems_of_several_machines_are_shared(shared: str) -> None:
    assert is_shared(shared)


@pytest.mark.parametrize(
    "local", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.mergerfs", "sshfs", "apfs"]
)
def test_file_systems_of_one_machine_are_not(local: str) -> None:
    assert not is_shared(local)


def mounted(monkeypatch: pytest.MonkeyPatch, directory: Path, point: Path, type_: str) -> None:
    """Let the kernel's table say that a file system of this type is mounted at ``point``."""
    table = directory / "mountinfo"
    table.write_text(f"27 1 254:0 / / rw - ext4 /dev/vda rw\n40 27 0:40 / {point} rw - {type_} server:/export rw\n")
    monkeypatch.setattr(local_filesystem, "MOUNTINFO", table)


def test_a_network_file_system_is_refused_also_below_and_behind_a_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    point = tmp_path.resolve() / "share"
    mounted(monkeypatch, tmp_path, point, "nfs4")
    point.mkdir()
    (tmp_path / "link").symlink_to(point)
    for directory in (point, point / "not" / "yet", tmp_path / "link" / "data"):
        with pytest.raises(Misconfigured, match="nfs4"):
            require_local(directory)
    require_local(tmp_path / "other")


def test_a_local_file_system_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mounted(monkeypatch, tmp_path, tmp_path.resolve(), "xfs")
    require_local(tmp_path)


def test_where_nothing_is_known_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local_filesystem, "MOUNTINFO", tmp_path / "absent")
    require_local(tmp_path)


def test_the_identity_of_a_file_is_not_its_path(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert FileIdentity.of(path) is None
    path.touch()
    with path.open() as opened:
        first = FileIdentity.of(path)
        assert first == FileIdentity.of(opened.fileno())
        path.rename(tmp_path / "moved")
        assert FileIdentity.of(tmp_path / "moved") == first
        path.touch()
        assert FileIdentity.of(path) not in (first, None)


def test_new_directories_are_synced_into_their_parents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    synced = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(FileIdentity.of(descriptor))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    make_durable_directory(tmp_path / "a" / "b")
    assert synced == [FileIdentity.of(tmp_path), FileIdentity.of(tmp_path / "a")]
    make_durable_directory(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_durable_directory(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        make_durable_directory(tmp_path / "file" / "below")
