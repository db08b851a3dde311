"""``milepost fsck`` on real damage: of blobs on the disk, and of records in the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import milepost
from milepost.cli.fsck import Finding, Kind, Repair, Repairer
from milepost.wire import Code
from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.client.cli.conftest import Run, Said
from tests.wire.support.damage import blob_directory, blob_file, damage_record
from tests.wire.webhdfs.hadoop import Tree

LARGE = bytes(range(256)) * 8192
STORE, JOB = "handles", "job"


def state(batch: int) -> bytes:
    """A file that no other is like."""
    return b"state %d " % batch * 500


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    """A server with handles, which a driver has led, and with a job of three cuts."""
    with ServerProcess(tmp_path, *ALL_AS_BLOBS) as process:
        process.start()
        with (
            milepost.Client(process.url) as client,
            client.session(ttl=600) as session,
            httpx.Client(base_url=process.url, timeout=60.0) as http,
        ):
            store = session.store(STORE)
            store.campaign()
            for name, content in (("a", b"a"), ("b", b"b"), ("large", LARGE)):
                store.add_and_lock(name, content)
            store.resign()
            job = session.store(JOB)
            tree = Tree(http, JOB, job.campaign().epoch)
            for batch in range(3):
                assert tree.create("checkpoint/state", state(batch), overwrite=True).status_code == 201
                assert tree.create(f"checkpoint/commits/{batch}", b"v1 %d" % batch * 100).status_code == 201
            job.resign()
        monkeypatch.setenv("MILEPOST_URL", process.url)
        yield process


Found = list[dict[str, Any]]


def found(run: Run, server: ServerProcess, *arguments: str) -> Found:
    """What is named; the exit code says whether there is anything."""
    ended = run("fsck", "--json", "--url", server.url, *arguments)
    named: Found = json.loads(ended.stdout)
    assert ended.returncode == bool(named), ended.stderr.decode()
    return named


def blob_of(server: ServerProcess, content: bytes) -> Path:
    """The file among the blobs with this content."""
    (path,) = (each for each in blob_directory(server).rglob("*") if each.is_file() and each.read_bytes() == content)
    return path


def test_a_service_without_damage_is_clean(said: Said, run: Run, server: ServerProcess) -> None:
    said("fsck", "--deep", "--url", server.url)
    ended = run("fsck", "--url", server.url)
    assert b"2 stores, 3 handles and 4 files were looked at: no damages" in ended.stderr
    assert found(run, server, "--repair", "--yes") == []


def test_bytes_that_are_lost_are_named_and_never_touched(run: Run, server: ServerProcess) -> None:
    """Whoever puts them back has everything again."""
    path = blob_file(server, STORE, "a")
    content = path.read_bytes()
    for damage in (b"x", b"", None):
        path.unlink() if damage is None else path.write_bytes(damage)
        (named,) = found(run, server, "--repair", "--yes")
        assert (named["store"], named["name"], named["repair"]) == (STORE, "a", None)
        assert named["kind"] == Kind.STATE.value
        assert named["see"].startswith("docs/damage.md")
    for form in ("table", "yaml"):
        shown = run("fsck", "--url", server.url, "-o", form).stdout.decode()
        assert Kind.STATE.value in shown
        assert "Kind." not in shown
    path.write_bytes(content)
    assert found(run, server, "--deep") == []


def test_a_flipped_bit_in_a_large_state_is_found_by_reading_it_all(run: Run, server: ServerProcess) -> None:
    path = blob_file(server, STORE, "large")
    path.write_bytes(LARGE[:-1] + bytes([LARGE[-1] ^ 1]))
    assert found(run, server) == []
    assert [each["name"] for each in found(run, server, "--deep")] == ["large"]
    assert found(run, server, "--deep", "--store", "job*") == []


def test_a_damaged_record_is_removed_on_demand_and_all_else_stays(run: Run, server: ServerProcess) -> None:
    server.stop()
    damage_record(server, f"stores/{STORE}/handles/b", b"\x00 no record")
    server.start()
    named = found(run, server)
    assert [(each["kind"], each["name"]) for each in named if each["store"]] == [(Kind.RECORD.value, "b")]
    assert [each["kind"] for each in named if not each["store"]] == [Kind.SERVICE.value], "the replica says so, too"
    unasked = run("fsck", "--repair", "--url", server.url)
    assert unasked.returncode == 2, "there is no terminal to ask on"
    with milepost.Client(server.url) as client:
        store = client.store(STORE)
        with client.session(ttl=600, holder="driver") as session:
            session.store(STORE).campaign()
            led = run("fsck", "--repair", "--yes", "--url", server.url)
            assert led.returncode == 1
            assert b"EpochHeld" in led.stderr
            with pytest.raises(milepost.Corrupt):
                store.get("b")
        told = run("fsck", "--repair", "--yes", "--url", server.url).stderr.decode()
        assert told.index("to remove the handle b of store handles") < told.index("b of handles is removed")
        assert found(run, server, "--deep") == []
        assert {handle.name: store.read(handle.name) for handle in store.get_all_handles()} == {
            "a": b"a",
            "large": LARGE,
        }


def test_a_record_that_was_put_back_meanwhile_is_left_alone(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also right before it would be removed: the answer of the moment before is made up."""

    def damaged(*_: object) -> None:
        raise milepost.Corrupt(Code.CORRUPT, "of a moment ago")

    finding = Finding(STORE, Kind.RECORD, "a", "of a while ago", Repair.REMOVE)
    of_files = Finding(JOB, Kind.FILES, "", "of a while ago", Repair.ROLL_BACK, revision=1)
    with milepost.Client(server.url) as client, client.session() as session:
        repairer = Repairer(session.store, deep=False, within=60.0)
        assert repairer.repair(finding) == "can be read again, so it was left alone"
        before = client.store(JOB).files.snapshots()
        assert repairer.repair(of_files) == "are whole by now, so they were left alone"
        assert client.store(STORE).read("a") == b"a"
        assert client.store(JOB).files.snapshots() == before
        monkeypatch.setattr(milepost.StateHandleStore, "exists", damaged)
        assert repairer.repair(finding) == "was added anew meanwhile, so it was left alone"
        assert client.store(STORE).read("a") == b"a"


def test_files_are_rolled_back_to_the_newest_whole_cut(run: Run, server: ServerProcess) -> None:
    blob_of(server, state(2)).unlink()
    named = found(run, server)
    with milepost.Client(server.url) as client:
        kept = client.store(JOB).files.snapshots().snapshots
        assert [(each["kind"], each["repair"], each["revision"]) for each in named] == [
            (Kind.FILES.value, Repair.ROLL_BACK.value, kept[1].revision)
        ]
        with client.session(ttl=600, holder="driver") as session:
            session.store(JOB).campaign()
            assert b"EpochHeld" in run("fsck", "--repair", "--yes", "--url", server.url).stderr
            assert client.store(JOB).files.snapshots().snapshots == kept
        told = run("fsck", "--repair", "--yes", "--url", server.url).stderr.decode()
        assert f"the files of job are those of revision {kept[1].revision} again" in told
        assert found(run, server, "--deep") == []
    with httpx.Client(base_url=server.url, timeout=60.0) as http:
        assert Tree(http, JOB).read("checkpoint/state").content == state(1)


def test_files_without_a_whole_cut_are_named_and_left_alone(run: Run, server: ServerProcess) -> None:
    content = {batch: blob_of(server, state(batch)) for batch in range(3)}
    for batch, path in content.items():
        path.write_bytes(state(batch)[:-1])
    (named,) = found(run, server, "--repair", "--yes")
    assert (named["kind"], named["repair"], named["see"]) == (Kind.FILES.value, None, "docs/damage.md#a-jobs-files")
    content[2].write_bytes(state(2))
    (older,) = found(run, server, "--repair", "--yes")
    assert (older["kind"], older["repair"]) == (Kind.KEPT.value, None)
    for batch, path in content.items():
        path.write_bytes(state(batch))
    assert found(run, server, "--deep") == []


def test_blobs_that_are_away_for_a_moment_are_no_damage(run: Run, server: ServerProcess) -> None:
    """Or the newest snapshot would be one of small files, whose bytes are in their records."""
    with milepost.Client(server.url) as client:
        kept = client.store(JOB).files.snapshots()
    directory = blob_directory(server)
    directory.rename(directory.with_name("away"))
    away = run("fsck", "--repair", "--yes", "--url", server.url, "--timeout", "2")
    assert (away.returncode, away.stdout) == (3, b"")
    directory.with_name("away").rename(directory)
    assert found(run, server, "--deep") == []
    with milepost.Client(server.url) as client:
        assert client.store(JOB).files.snapshots() == kept


def test_a_store_whose_own_record_is_damaged_hides_no_other(run: Run, server: ServerProcess) -> None:
    blob_of(server, state(2)).unlink()
    server.stop()
    damage_record(server, f"stores/{STORE}", b"{")
    server.start()
    named = {each["store"]: each["kind"] for each in found(run, server) if each["store"]}
    assert named == {STORE: Kind.STORE.value, JOB: Kind.FILES.value}


def test_a_service_with_tokens_tells_its_replicas_damage_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `/readyz?verbose` says of damaged records is for those alone who may read every store."""
    token, file = "token-of-those-who-run-it", tmp_path / "tokens"
    file.write_text(f"ops {token}\n")
    monkeypatch.setenv("MILEPOST_TOKEN", token)
    with ServerProcess(tmp_path, "--token-file", str(file)) as process:
        process.start()
        with milepost.Client(process.url, token=token) as client, client.session() as session:
            session.store(STORE).add_and_lock("b", b"b")
        process.stop()
        damage_record(process, f"stores/{STORE}/handles/b", b"\x00 no record")
        process.start()
        (told,) = [each for each in found(run, process) if each["kind"] == Kind.SERVICE.value]
        assert f"stores/{STORE}/handles/b" in told["reason"]
