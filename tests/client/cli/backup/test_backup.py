"""``milepost backup`` and ``restore`` over real services: what was saved is there again, under a newer epoch."""

from __future__ import annotations

import io
import json
import os
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

import milepost
from milepost import Handle, JobFiles, StateHandleStore, WrittenFile
from milepost.cli.backup.archive import opened
from milepost.cli.backup.format import HandleRecord, SnapshotRecord
from milepost.cli.backup.plan import Planned, Planner
from milepost.cli.backup.restoring import Restorer
from milepost.cli.backup.saving import Saver
from milepost.operations.handles import RESTORE_JOB_HISTORY
from tests.client.cli.backup.conftest import EPOCHS, LARGE, Job, content_of
from tests.client.cli.conftest import MAIN, Run, Said, ended, started
from tests.client.conftest import Service, serving
from tests.wire.webhdfs.hadoop import Tree


def test_files_that_no_batch_has_committed_yet_are_told_of(
    run: Run, blocking: milepost.Client, session: milepost.Session, name: str, tmp_path: Path
) -> None:
    epoch = session.store(name).campaign().epoch
    blocking.store(name).under(epoch).files.write("checkpoint/offsets/0", b"not committed")
    end = run("backup", str(tmp_path / "b"), "--store", name, "--quiet")
    assert end.returncode == 0
    assert end.stderr.decode() == f"not saved: the files of {name}, which has not committed a batch yet\n"


def test_what_was_saved_is_there_again_under_an_epoch_above_the_old_one(
    said: Said, saved: Path, job: Job, empty: Service
) -> None:
    told = json.loads(said("restore", str(saved), "--url", empty.url, "--json"))
    assert (told["stores"], told["handles"], told["histories"], told["skipped"]) == (2, 4, 1, 0)
    with milepost.Client(empty.url) as client:
        check_history(client, job, job.name)
        store = client.store(job.name)
        epoch = store.current_epoch()
        assert (epoch.epoch, epoch.session) == (EPOCHS + 1, None)
        assert {handle.name: store.read(handle.name) for handle in store.get_all_handles()} == {
            "empty": b"",
            "large": LARGE,
            "latest": b"state of " + job.name.encode(),
        }
        latest = store.get("latest")
        assert (latest.labels, latest.locks) == ({"batch": "2"}, ())
        plain = client.store(f"{job.name}-plain")
        assert (plain.read("only"), plain.current_epoch().epoch) == (b"plain", 0)
        kept = store.files.snapshots()
        assert [(savepoint.name, savepoint.snapshot.batch) for savepoint in kept.savepoints] == [("savepoint", 0)]
        assert (kept.snapshots[-1].directory, kept.snapshots[-1].batch) == ("checkpoint", 2)
        found = store.files.verify(digests=True)
        assert (found.intact, found.files) == (True, len(job.files))
        with client.session() as session, pytest.raises(milepost.Fenced):
            session.store(job.name).under(EPOCHS).add_and_lock("deposed", b"")
    assert content_of(empty.url, job.name) == job.files
    assert content_of(empty.url, job.name, ".snapshot/savepoint") == job.kept
    assert content_of(empty.url, job.name, f".snapshot/@{kept.snapshots[-1].revision}") == job.files
    with httpx.Client(base_url=empty.url, timeout=60.0) as http:
        assert "empty" in Tree(http, job.name).names("checkpoint")


def check_history(client: milepost.Client, job: Job, name: str) -> None:
    """The entries that were saved come first, and those of the restore after them; each has its place once."""
    with milepost.Client(job.service.url) as original:
        before = list(original.job_history(job.name))[::-1]
    found = list(client.job_history(name))[::-1]
    restored = [entry for entry in found if entry.restored]
    saved = before[: len(restored)]  # the backup was made later than the job, and may have more entries since
    of_its_service: Any = {"id": None, "revision": None, "snapshot": None, "previous": None, "restored": False}
    assert [replace(entry, **of_its_service) for entry in restored] == [
        replace(entry, **of_its_service) for entry in saved
    ]
    assert {entry.batch for entry in restored} >= {0, 1, 2}
    assert {entry.snapshot for entry in restored} == {None}
    said, *since = found[len(restored) :]
    assert (said.kind, said.entries, said.source) == ("history-restored", len(restored), job.name)
    assert [(entry.kind, entry.epoch) for entry in since if entry.kind != "savepoint-made"] == [
        ("epoch-granted", EPOCHS + 1),
        ("epoch-ended", EPOCHS + 1),
    ], "what the restore writes is no batch of the job"
    told = []
    for entry in client.job_events(name, after="0", timeout=60.0):
        told.append(entry)
        if entry.id == found[-1].id:
            break
    assert told == found


def test_a_history_is_never_replaced_and_never_in_the_way(
    run: Run, saved: Path, job: Job, empty: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that is there before or after the plan, nor a service that does not take it, stops the restore."""
    with milepost.Client(empty.url) as client, client.session() as session:
        session.store(job.name).campaign()
        session.store(job.name).resign()
        store, planned = session.store("later"), Planner.plan

        def late(self: Planner, *arguments: Any) -> Planned:
            found = planned(self, *arguments)
            if not store.current_epoch().epoch:
                store.campaign()  # after the plan
                store.resign()
            return found

        restoring = ("restore", str(saved), "--url", empty.url, "--store", job.name)
        ends = [run(*restoring)]
        with monkeypatch.context() as patched:
            patched.setattr(Planner, "plan", late)
            ends.append(run(*restoring, "--rename", f"{job.name}=later"))
        assert [end.returncode for end in ends] == [0, 0], ends
        left = f"the history of {job.name} is left as it is there\n"
        assert ends[0].stderr.decode() == left
        assert ends[1].stderr.startswith(b"the history of later is left as it is there: already-exists")
        for name in (job.name, "later"):
            assert not [entry for entry in client.job_history(name) if entry.restored]
            assert client.store(name).read("latest") == b"state of " + job.name.encode()

    unknown: Any = [{"kind": "unheard-of", "at": "2026-01-01T00:00:00.000Z"}]
    for part, made_up, status, text in (
        ("RESTORE_JOB_HISTORY", replace(RESTORE_JOB_HISTORY, method="PUT"), 0, b"not-supported"),
        ("restorable", lambda _: unknown, 1, b"'unheard-of'"),
    ):
        target = f"{job.name}-{status}"
        with monkeypatch.context() as patched:
            patched.setattr(f"milepost.core.store.{part}", made_up)
            end = run(*restoring, "--rename", f"{job.name}={target}")
        assert end.returncode == status, end
        assert end.stderr.startswith(f"the history of {target} is not restored: ".encode())
        assert text in end.stderr
        assert content_of(empty.url, target) == job.files


def test_a_backup_leaves_nothing_behind_and_only_its_owner_may_read_it(saved: Path, job: Job) -> None:
    with milepost.Client(job.service.url) as client:
        assert [savepoint.name for savepoint in client.store(job.name).files.snapshots().savepoints] == ["savepoint"]
    assert saved.stat().st_mode & 0o077 == 0
    assert [path.name for path in saved.parent.iterdir() if "backup" in path.name] == ["backup.tar"]
    with tarfile.open(saved) as tar:
        names = tar.getnames()
    assert names[0] == "milepost-backup.json"
    assert names[-1] == "end.json"


def test_a_backup_goes_through_a_pipe(job: Job, empty: Service) -> None:
    """As processes: neither end can go back in what it has written or read."""
    out = ended(started(job.service.url, "backup", "-", "--store", f"{job.name}-plain"))
    assert out.returncode == 0, out.stderr
    restored = ended(started(empty.url, "restore", "-"), out.stdout)
    assert restored.returncode == 0, restored.stderr
    with milepost.Client(empty.url) as client:
        assert client.store(f"{job.name}-plain").read("only") == b"plain"


def test_what_is_no_file_is_written_as_it_is_and_a_link_is_followed(job: Job, tmp_path: Path) -> None:
    """Nothing may be renamed over a device, such as /dev/null."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "backup.tar")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # all of the backup goes into the pipe
    try:
        end = ended(started(job.service.url, "backup", str(pipe), "--store", f"{job.name}-plain"))
        assert (end.returncode, end.stderr) == (0, b""), end.stderr
        content = os.read(reading, 65536)
    finally:
        os.close(reading)
    assert pipe.is_fifo()
    end = ended(started(job.service.url, "backup", str(link), "--store", f"{job.name}-plain"))
    assert end.returncode == 0, end.stderr
    assert link.is_symlink()
    assert len(link.read_bytes()) == len(content)


def test_a_backup_that_fails_says_why_and_no_more(job: Job, tmp_path: Path) -> None:
    """It is cut between two handles, which no real fault can be made to hit."""
    snapshot = (
        "import milepost, milepost.cli.backup.saving as saving\n"
        "save, names = saving.Saver._save_handle, []\n"
        "def failing(self, store, handle):\n"
        "    names.append(handle.name)\n"
        "    if len(names) == 2: raise milepost.ConnectionFailed('cut')\n"
        "    return save(self, store, handle)\n"
        "saving.Saver._save_handle = failing\n"
    )
    path = tmp_path / "cut.tar"
    end = ended(started(job.service.url, "backup", str(path), "--store", job.name, main=snapshot + MAIN))
    assert (end.returncode, end.stderr) == (3, b"ConnectionFailed: cut\n")
    assert list(tmp_path.iterdir()) == []


def test_the_epoch_of_a_backup_is_none_below_that_of_what_was_saved(
    run: Run, service: Service, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver is deposed while the handles are read; the state of the next one is in the backup."""
    save = Saver._save_handle
    with milepost.Client(service.url) as client, client.session(ttl=600) as session:
        store = session.store(name)
        store.campaign()
        store.add_and_lock("a", b"first")
        first = store.add_and_lock("b", b"of epoch 1")

        def deposing(self: Saver, saved: StateHandleStore, handle: Handle) -> HandleRecord:
            if handle.name == "a":
                store.resign()
                assert store.campaign().epoch == 2
                store.replace("b", first.version, b"of epoch 2")
            return save(self, saved, handle)

        monkeypatch.setattr(Saver, "_save_handle", deposing)
        path = tmp_path / "deposed.tar"
        assert run("backup", str(path), "--store", name).returncode == 0
    with opened(path, io.BytesIO(), lambda _: None) as backup:
        (record,) = backup.stores()
    assert [handle.epoch for handle in record.handles] == [1, 2]
    assert record.epoch == 2


def test_a_state_that_is_replaced_while_it_is_read_is_saved_as_it_is_then(
    run: Run, service: Service, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection breaks off at that moment, which is made up, so that the rest cannot be had any more."""
    opened_really = StateHandleStore.open
    with milepost.Client(service.url) as client, client.session(ttl=600) as session:
        store = session.store(name)
        first = store.add_and_lock("a", LARGE)

        @contextmanager
        def breaking(self: StateHandleStore, handle: str, version: str | None = None) -> Iterator[Iterator[bytes]]:
            def chunks() -> Iterator[bytes]:
                yield LARGE[:1000]
                store.replace("a", first.version, b"newer")
                try:
                    with opened_really(self, "a", first.version):
                        raise AssertionError("it is not there any more")
                except milepost.VersionMismatch as error:
                    raise milepost.StateTruncated("the rest is refused") from error

            if version == first.version:
                yield chunks()
                return
            with opened_really(self, handle, version) as rest:
                yield rest

        monkeypatch.setattr(StateHandleStore, "open", breaking)
        path = tmp_path / "replaced.tar"
        end = run("backup", str(path), "--store", name)
        assert end.returncode == 0, end.stderr
    with opened(path, io.BytesIO(), lambda _: None) as backup:
        ((handle,),) = (record.handles for record in backup.stores())
        assert (handle.damage, handle.member is not None) == (None, True)
        assert backup.slice(handle.member or "").read() == b"newer"


def test_handles_of_no_epoch_are_restored_where_a_driver_has_been(
    run: Run, said: Said, saved: Path, job: Job, empty: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a store takes no write without an epoch, so the restore has one for that time.

    A handle that is being removed there does not count as restored; the listing of that moment is made up.
    """
    plain = f"{job.name}-plain"
    with milepost.Client(empty.url) as client, client.session() as session:
        store = session.store(plain)
        epoch = store.campaign().epoch
        store.resign()
        said("restore", str(saved), "--url", empty.url)
        assert client.store(plain).read("only") == b"plain"
        assert (store.current_epoch().epoch, store.current_epoch().session) == (epoch + 1, None)
        monkeypatch.setattr(
            StateHandleStore,
            "look_through",
            lambda self: iter([replace(handle, removing=True) for handle in self.get_all_handles()]),
        )
        refused = run("restore", str(saved), "--url", empty.url, "--store", plain, "--skip-existing")
        assert (refused.returncode, b"is being removed there" in refused.stderr) == (1, True)


def test_a_directory_gets_a_file_with_a_name_of_its_own(said: Said, job: Job, tmp_path: Path) -> None:
    told = json.loads(said("backup", str(tmp_path), "--store", f"{job.name}-plain", "--json"))
    assert Path(told["file"]).parent == tmp_path
    assert "is whole: 1 stores, 1 handles" in said("restore", told["file"], "--verify-only")


def test_what_is_there_already_is_refused_or_skipped_and_nothing_else_changes(
    run: Run, said: Said, saved: Path, job: Job, empty: Service
) -> None:
    said("restore", str(saved), "--url", empty.url)
    before = content_of(empty.url, job.name)
    again = run("restore", str(saved), "--url", empty.url)
    assert again.returncode == 1
    assert f"handle {job.name}/latest is there; the same\n".encode() in again.stderr
    assert again.stderr.count(b"--skip-existing") == 1
    assert f"files of {job.name}: there are some already".encode() in again.stderr
    told = json.loads(said("restore", str(saved), "--url", empty.url, "--skip-existing", "--json"))
    assert (told["handles"], told["files"], told["skipped"]) == (0, 0, 4 + len(job.files))
    with milepost.Client(empty.url) as client, client.session() as session:
        changed = session.store(f"{job.name}-plain")
        handle = changed.get_and_lock("only")
        changed.replace("only", handle.version, b"newer")
        differs = run("restore", str(saved), "--url", empty.url, "--skip-existing")
        assert differs.returncode == 1
        assert b"another state or label is there" in differs.stderr
        assert changed.read("only") == b"newer"
    assert content_of(empty.url, job.name) == before


def test_files_of_a_job_that_went_on_are_never_written_over(
    run: Run, said: Said, saved: Path, job: Job, empty: Service
) -> None:
    said("restore", str(saved), "--url", empty.url)
    with (
        milepost.Client(empty.url) as client,
        client.session(ttl=60) as session,
        httpx.Client(base_url=empty.url, timeout=60.0) as http,
    ):
        store = session.store(job.name)
        tree = Tree(http, job.name, store.campaign().epoch)
        assert tree.create("checkpoint/state/3.delta", b"of the batch after").status_code == 201
        store.resign()
    refused = run("restore", str(saved), "--url", empty.url, "--skip-existing")
    assert refused.returncode == 1
    assert b"checkpoint/state/3.delta" in refused.stderr
    assert content_of(empty.url, job.name)["checkpoint/state/3.delta"] == b"of the batch after"


def test_a_restore_that_was_interrupted_goes_on(
    run: Run, said: Said, saved: Path, job: Job, empty: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It breaks off before the epoch, and then inside of the tree, which no real fault can be made to hit."""
    write, puts = JobFiles.write, 0

    def breaking(self: JobFiles, *arguments: Any, **named: Any) -> WrittenFile:
        nonlocal puts
        puts += 1
        if puts == 9:
            raise milepost.ConnectionFailed("cut")
        return write(self, *arguments, **named)

    def cut(*_: Any, **__: Any) -> Any:
        raise milepost.ConnectionFailed("cut")

    with monkeypatch.context() as patched:
        patched.setattr(StateHandleStore, "campaign", cut)  # behind the history, before the epoch
        assert run("restore", str(saved), "--url", empty.url).returncode == 3
    with monkeypatch.context() as patched:
        patched.setattr(JobFiles, "write", breaking)
        assert run("restore", str(saved), "--url", empty.url).returncode == 3
    monkeypatch.setenv("MILEPOST_URL", empty.url)
    told = json.loads(said("restore", str(saved), "--skip-existing", "--json"))
    assert 0 < told["files"] < len(job.files) + len(job.kept)
    assert told["histories"] == 0
    with milepost.Client(empty.url) as client:
        since = [entry for entry in client.job_history(job.name) if not entry.restored]
    restores = [entry.entries for entry in since if entry.kind == "history-restored"]
    assert (len(restores), len([each for each in restores if each])) == (3, 1), "a history is restored once"
    assert "batch-committed" not in {entry.kind for entry in since}
    assert content_of(empty.url, job.name) == job.files
    assert content_of(empty.url, job.name, ".snapshot/savepoint") == job.kept


def test_a_restore_that_broke_off_before_its_last_cut_makes_that(
    run: Run, said: Said, saved: Path, job: Job, empty: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files are there then, but the newest snapshot is that of an older batch."""
    puts: list[str] = []
    write = JobFiles.write

    def breaking(self: JobFiles, *arguments: Any, **named: Any) -> WrittenFile:
        puts.append(arguments[0])
        if puts.count("checkpoint/commits/2") == 2:
            raise milepost.ConnectionFailed("cut")
        return write(self, *arguments, **named)

    monkeypatch.setattr(JobFiles, "write", breaking)
    assert run("restore", str(saved), "--url", empty.url).returncode == 3
    monkeypatch.undo()
    monkeypatch.setenv("MILEPOST_URL", empty.url)
    assert content_of(empty.url, job.name) == job.files
    with milepost.Client(empty.url) as client:
        assert client.store(job.name).files.snapshots().snapshots[-1].batch == 1
        said("restore", str(saved), "--skip-existing")
        assert client.store(job.name).files.snapshots().snapshots[-1].batch == 2


def test_a_service_that_would_grant_old_epochs_again_gets_nothing(
    run: Run, saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(tmp_path_factory.mktemp("low"), "--epochs-above", str(EPOCHS - 1)) as low:
        refused = run("restore", str(saved), "--url", low.url)
        assert refused.returncode == 1
        assert b"--epochs-above" in refused.stderr
        with milepost.Client(low.url) as client:
            assert list(client.stores()) == []


def test_nothing_is_restored_under_a_driver(run: Run, saved: Path, job: Job, empty: Service) -> None:
    with milepost.Client(empty.url) as client, client.session(ttl=60, holder="driver") as session:
        session.store(job.name).campaign()
        refused = run("restore", str(saved), "--url", empty.url, "--store", job.name, "--wait", "0")
        assert refused.returncode == 1
        assert b"driver" in refused.stderr
        assert list(client.store(job.name).get_all_handles()) == []


def test_a_store_gets_another_name(said: Said, run: Run, saved: Path, job: Job, empty: Service) -> None:
    said("restore", str(saved), "--url", empty.url, "--store", job.name, "--rename", f"{job.name}=other")
    assert content_of(empty.url, "other") == job.files
    with milepost.Client(empty.url) as client:
        check_history(client, job, "other")
        assert [store.store for store in client.stores()] == ["other"]
    for wrong in (["--rename", "no-equals-sign"], ["--rename", "=x"]):
        assert run("restore", str(saved), "--url", empty.url, *wrong).returncode == 2
    unknown = run("restore", str(saved), "--url", empty.url, "--skip-existing", "--rename", "unknown=x")
    assert unknown.returncode == 1
    assert b"no store 'unknown'" in unknown.stderr


def test_a_job_whose_files_name_its_directory_is_renamed_where_spark_says_so_itself_alone(
    run: Run, said: Said, service: Service, name: str, empty: Service, tmp_path: Path
) -> None:
    with (
        milepost.Client(service.url) as client,
        client.session(ttl=60) as session,
        httpx.Client(base_url=service.url, timeout=60.0) as http,
    ):
        store = session.store(name)
        tree = Tree(http, name, store.campaign().epoch)
        schema = f"webhdfs://milepost/jobs/{name}/checkpoint/schema"
        assert tree.create("checkpoint/_metadata/v2/0", schema.encode()).status_code == 201
        assert tree.create("checkpoint/commits/3", b"v1").status_code == 201
        path = tmp_path / "named.tar"
        said("backup", str(path), "--store", name)
        renaming = ("restore", str(path), "--url", empty.url, "--rename")
        said(*renaming, f"{name}=other")
        named = content_of(empty.url, "other")["checkpoint/_metadata/v2/0"]
        assert named == b"webhdfs://milepost/jobs/other/checkpoint/schema"
        assert tree.create("checkpoint/listing", schema.encode()).status_code == 201
        assert tree.create("checkpoint/commits/4", b"v1").status_code == 201
        said("backup", str(path), "--store", name)
        refused = run(*renaming, f"{name}=third")
        assert refused.returncode == 1
        assert b"checkpoint/listing" in refused.stderr
        with milepost.Client(empty.url) as restored:
            assert [each.store for each in restored.stores()] == ["other"]


def test_a_backup_is_no_argument_for_the_command_line(run: Run, tmp_path: Path) -> None:
    assert run("restore", str(tmp_path / "nothing")).returncode == 2
    assert run("backup", str(tmp_path / "no" / "backup.tar")).returncode == 2
    assert run("backup", str(tmp_path / "x.tar"), "--url", "http://127.0.0.1:1", "--timeout", "0.3").returncode == 3
    assert list(tmp_path.glob("*x.tar*")) == []


def test_what_is_damaged_is_named_and_all_else_is_saved(
    run: Run, service: Service, name: str, empty: Service, tmp_path: Path
) -> None:
    large = LARGE + name.encode()
    with milepost.Client(service.url) as client, client.session() as session:
        store = session.store(name)
        for handle, content in (("flipped", large), ("good", b"good of " + name.encode()), ("lost", name.encode())):
            store.add_and_lock(handle, content)
    service.blob(name.encode()).unlink()
    service.blob(large).write_bytes(large[:-1] + b"?")
    path = tmp_path / "damaged.tar"
    partly = run("backup", str(path), "--store", name)
    assert partly.returncode == 1
    for handle in ("flipped", "lost"):
        assert f"not saved: handle {name}/{handle}: ".encode() in partly.stderr
    assert f"{path} has 1 stores, 1 of 3 handles and 0 files of ".encode() in partly.stdout
    verified = run("restore", str(path), "--verify-only")
    assert b"not in the backup" in verified.stderr
    assert b"is whole: 1 stores, 1 of 3 handles and 0 files of " in verified.stdout
    restored = run("restore", str(path), "--url", empty.url)
    assert restored.returncode == 1
    with milepost.Client(empty.url) as client:
        assert [each.name for each in client.store(name).get_all_handles()] == ["good"]


def test_a_savepoint_is_restored_from_the_snapshot_of_its_query_and_batch(service: Service) -> None:
    """Other queries may have made later ones, while a restore that was interrupted goes on."""
    name = f"queries-{uuid.uuid4().hex[:12]}"
    with (
        milepost.Client(service.url) as client,
        client.session(ttl=600) as session,
        httpx.Client(base_url=service.url, timeout=60.0) as http,
    ):
        store = session.store(name)
        tree = Tree(http, name, store.campaign().epoch)
        for query in ("first", "second"):
            assert tree.create(f"{query}/commits/0", b"v1").status_code == 201
        restorer = Restorer(cast("Any", None), session.store, cast("Any", None), 0.0)
        restorer._make_savepoint(store, SnapshotRecord(1, "first", 0), "kept")
        (savepoint,) = store.files.snapshots().savepoints
        assert (savepoint.name, savepoint.snapshot.directory) == ("kept", "first")
        with pytest.raises(milepost.MilepostError, match="has made no snapshot for the savepoint 'lost'"):
            restorer._make_savepoint(store, SnapshotRecord(1, "third", 0), "lost")
