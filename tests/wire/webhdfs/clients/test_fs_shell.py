"""Hadoop's own shell, ``hdfs dfs``, on a job's files: with the header that says the epoch, and with tokens."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

import milepost
from milepost.core.checkpoint_location import checkpoint_location
from tests.wire.webhdfs.clients.conftest import Job, Shell
from tests.wire.webhdfs.replicas import Set

pytestmark = pytest.mark.spark


def test_files_are_put_listed_read_moved_and_removed(shell: Shell, job: Job, some: Path, tmp_path: Path) -> None:
    def done(*arguments: str) -> str:
        ran = shell.run(job, *arguments)
        assert ran.status == 0, ran
        return ran.out

    root = job.root
    done("-mkdir", "-p", f"{root}/a/b")
    done("-put", str(some), f"{root}/a/some")
    done("-touchz", f"{root}/a/empty")
    lines = [line.split() for line in done("-ls", "-R", root).splitlines()]
    assert [(line[0], line[4], line[-1].removeprefix(root)) for line in lines] == [
        ("drwxr-xr-x", "0", "/a"),
        ("drwxr-xr-x", "0", "/a/b"),
        ("-rw-r--r--", "0", "/a/empty"),
        ("-rw-r--r--", "200000", "/a/some"),
    ]
    assert done("-ls", root).startswith("Found 1 items")
    done("-mv", f"{root}/a/some", f"{root}/a/b/moved")
    assert done("-cat", f"{root}/a/b/moved") == some.read_text()
    assert done("-tail", f"{root}/a/b/moved") == some.read_text()[-1024:]
    done("-get", f"{root}/a/b/moved", str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == some.read_bytes()
    done("-put", "-f", str(some), f"{root}/a/empty")
    done("-rm", f"{root}/a/empty")
    done("-rm", "-r", f"{root}/a")
    assert done("-ls", root) == ""


def test_a_pinned_cut_is_read_as_a_snapshot_and_copied(shell: Shell, job: Job, some: Path, tmp_path: Path) -> None:
    def done(*arguments: str) -> str:
        ran = shell.run(job, *arguments)
        assert ran.status == 0, ran
        return ran.out

    commits, state = f"{job.root}/checkpoint/commits", f"{job.root}/checkpoint/state"
    done("-mkdir", "-p", commits, state)
    done("-put", str(some), f"{state}/0")
    done("-touchz", f"{commits}/0")
    job.store.files.make_savepoint("before-upgrade")
    (savepoint,) = job.store.files.snapshots().savepoints
    done("-rm", f"{state}/0")
    done("-touchz", f"{commits}/1")
    kept = [line.split()[-1] for line in done("-ls", f"{job.root}/.snapshot").splitlines()[1:]]
    snapshots = [f"{job.root}/.snapshot/{snapshot.name}" for snapshot in job.store.files.snapshots().snapshots]
    assert sorted(kept) == sorted([*snapshots, f"{job.root}/.snapshot/{savepoint.name}"])
    assert done("-cat", f"{job.root}/.snapshot/{savepoint.name}/checkpoint/state/0") == some.read_text()
    newest = f"{job.root}/.snapshot/{job.store.files.snapshots().snapshots[-1].name}"
    assert shell.run(job, "-cat", f"{newest}/checkpoint/state/0").status
    done("-get", f"{job.root}/.snapshot/{savepoint.name}/checkpoint", str(tmp_path / "got"))
    assert (tmp_path / "got" / "state" / "0").read_bytes() == some.read_bytes()
    done("-cp", f"{job.root}/.snapshot/{savepoint.name}/checkpoint", f"{job.root}/branched")
    assert done("-cat", f"{job.root}/branched/state/0") == some.read_text()
    ran = shell.run(job, "-rm", f"{job.root}/.snapshot/{savepoint.name}/checkpoint/state/0")
    assert ran.status != 0
    assert "cannot be written" in ran.error, ran


def test_what_is_refused_says_why(shell: Shell, job: Job, some: Path) -> None:
    root = job.root
    assert shell.run(job, "-put", str(some), f"{root}/some").status == 0
    for arguments, said in (
        (("-put", str(some), f"{root}/some"), "File exists"),
        (("-cat", f"{root}/nowhere"), "No such file or directory"),
        (("-rm", f"{root}/nowhere"), "No such file or directory"),
        (("-mkdir", f"{root}/some/below"), "'some' is a file"),
    ):
        ran = shell.run(job, *arguments)
        assert ran.status != 0, arguments
        assert said in ran.error, (arguments, ran)


def test_what_is_not_supported_is_said_in_one_line(shell: Shell, job: Job, some: Path) -> None:
    file, directory = f"{job.root}/some", f"{job.root}/d"
    assert shell.run(job, "-put", str(some), file).status == 0
    assert shell.run(job, "-mkdir", directory).status == 0
    otherwise = []
    for said, *arguments in (
        ("APPEND", "-appendToFile", str(some), file),
        ("SETPERMISSION", "-chmod", "600", file),
        ("SETOWNER", "-chown", "nobody", file),
        ("SETOWNER", "-chgrp", "nobody", file),
        ("SETREPLICATION", "-setrep", "2", file),
        ("SETTIMES", "-touch", file),
        ("TRUNCATE", "-truncate", "1", file),
        ("CONCAT", "-concat", file, file, file),
        ("ACL", "-setfacl", "-b", file),
        ("XATTR", "-getfattr", "-d", file),
        ("SETXATTR", "-setfattr", "-n", "user.a", "-v", "b", file),
        ("CREATESNAPSHOT", "-createSnapshot", directory, "s"),
        ("RENAMESNAPSHOT", "-renameSnapshot", directory, "s", "t"),
        ("DELETESNAPSHOT", "-deleteSnapshot", directory, "s"),
        ("GETFILECHECKSUM", "-checksum", file),
    ):
        ran = shell.run(job, *arguments)
        if ran.status != 1 or len(ran.error.splitlines()) != 1 or said not in ran.error:
            otherwise.append((said, ran))
    assert otherwise == []


def test_what_there_is_is_counted(shell: Shell, job: Job, some: Path) -> None:
    def done(*arguments: str) -> list[list[str]]:
        ran = shell.run(job, *arguments)
        assert ran.status == 0, ran
        return [line.split() for line in ran.out.splitlines()]

    for path in ("a/b/some", "a/other"):
        done("-mkdir", "-p", f"{job.root}/a/b")
        done("-put", str(some), f"{job.root}/{path}")
    assert [line[0] for line in done("-du", f"{job.root}/a")] == ["200000", "200000"]
    assert done("-du", "-s", job.root)[0][0] == "400000"
    assert done("-count", job.root)[0][:3] == ["3", "2", "400000"]
    assert done("-count", "-q", job.root)[0][:7] == ["none", "inf", "none", "inf", "3", "2", "400000"]
    assert done("-count", "-u", job.root)[0][:4] == ["none", "inf", "none", "inf"]
    assert done("-df", job.root)[-1][2] == "400000"
    assert done("-du", job.root.rpartition("/")[0])


def test_what_is_removed_is_moved_to_the_trash_of_the_job(shell: Shell, job: Job, some: Path) -> None:
    """Most installations of Hadoop have an interval for the trash; none empties the one of a job."""

    def ran(*arguments: str) -> str:
        ended = shell.run(job, *arguments, fs_trash_interval="360")
        assert ended.status == 0, ended
        return ended.out

    trash = f"{job.root}/.Trash/milepost/Current{job.path}"
    ran("-mkdir", "-p", f"{job.root}/a/b")
    ran("-put", str(some), f"{job.root}/a/b/some")
    ran("-rm", f"{job.root}/a/b/some")
    assert ran("-cat", f"{trash}/a/b/some") == some.read_text()
    ran("-rm", "-r", f"{job.root}/a")
    assert "/a" not in [line.split()[-1].removeprefix(job.root) for line in ran("-ls", job.root).splitlines()]
    ran("-rm", "-r", f"{trash}/a")
    ran("-rm", "-r", "-skipTrash", f"{job.root}/.Trash")
    assert ran("-ls", job.root) == ""


def test_a_deposed_driver_reads_and_does_not_write(shell: Shell, job: Job, some: Path) -> None:
    assert shell.run(job, "-put", str(some), f"{job.root}/some").status == 0
    job.store.resign()
    assert job.store.campaign().epoch == job.epoch + 1
    for arguments in (
        ("-put", str(some), f"{job.root}/other"),
        ("-rm", f"{job.root}/some"),
        ("-mkdir", f"{job.root}/d"),
        ("-mv", f"{job.root}/some", f"{job.root}/other"),
    ):
        ran = shell.run(job, *arguments)
        assert ran.status != 0
        assert f"the current one of '{job.store.name}' is {job.epoch + 1}" in ran.error, ran
    assert shell.run(job, "-cat", f"{job.root}/some").out == some.read_text()


def test_nobody_writes_without_saying_an_epoch(shell: Shell, job: Job, some: Path) -> None:
    stranger = {"dfs_webhdfs_rest-csrf_enabled": "false", "dfs_webhdfs_oauth2_enabled": "false"}
    ran = shell.run(job, "-put", str(some), f"{job.root}/some", **stranger)
    assert ran.status != 0
    assert ("no epoch was given" if not job.server.flags else "Unauthorized") in ran.error, ran


def test_a_door_that_died_is_passed_over(shell: Shell, some: Path, tmp_path: Path) -> None:
    """The leader does not know it yet: the client asks for another data node by itself."""
    with ExitStack() as running:
        replicas = Set(tmp_path / "replicas", running)
        leader, (data_node, other) = replicas.leader(), replicas.followers()
        client = running.enter_context(milepost.Client([replica.url for replica in replicas.replicas]))
        session = running.enter_context(client.session(ttl=60, holder="driver"))
        store = session.store("flights")
        epoch = store.campaign().epoch
        job = Job(leader, store, checkpoint_location([data_node.url, leader.url, other.url], "flights", epoch), epoch)
        used = 0
        for number in range(200):
            path = f"{job.root}/{number}"
            assert shell.run(job, "-put", str(some), path).status == 0
            used = data_node.logged().count("PUT /webhdfs/v1/jobs/flights/")
            if used:
                break
        assert used
        data_node.kill()
        for number in range(4):
            ran = shell.run(job, "-put", str(some), f"{job.root}/after-{number}")
            assert ran.status == 0, ran
            assert shell.run(job, "-cat", f"{job.root}/after-{number}").out == some.read_text()
