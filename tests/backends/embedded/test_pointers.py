"""What the embedded pointer store promises beyond the contract: about its file, damage in it, and who else uses it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from milepost_backends.contract import (
    BackendError,
    Change,
    CommitRefused,
    Done,
    JournalDamaged,
    Refusal,
    StorageFull,
    StorageUnavailable,
    TakeOverLost,
    Unknown,
)
from milepost_backends.disk import reserve
from milepost_backends.embedded import database as sqlite_file
from milepost_backends.embedded import journals as sqlite_journal
from milepost_backends.embedded import place as sqlite_place
from milepost_backends.embedded.heads import Moves, move_head
from milepost_backends.embedded.pointers import FILE_NAME, RESERVE_NAME, WITNESS_NAME, EmbeddedPointers
from milepost_backends.embedded.witness import FileWitness
from tests.contracts.journals import ROOT, done, put, records, refused, taken_over, writes
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


def move_database(source: Path, target: Path) -> None:
    """All of its files; one without the others is not the database."""
    target.mkdir(exist_ok=True)
    for path in list(source.glob(f"{FILE_NAME}*")):
        path.rename(target / path.name)


async def test_a_lineage_is_twelve_hexadecimal_digits(store: EmbeddedPointers) -> None:
    lineage = (await store.take_over(ROOT)).lineage
    assert len(lineage) == 12
    assert int(lineage, 16) >= 0


async def test_a_revision_that_does_not_rise_is_a_mistake_of_the_caller(store: EmbeddedPointers) -> None:
    head = await store.take_over(ROOT)
    with pytest.raises(ValueError, match="does not follow"):
        await store.commit(head, [], head.revision)


async def test_a_closed_store_leaves_the_database_and_what_lies_beside_it(
    store: EmbeddedPointers, tmp_path: Path
) -> None:
    await put(store, await store.take_over(ROOT), writes(a=b"1"))
    await store.close()
    assert set(os.listdir(tmp_path)) == {FILE_NAME, WITNESS_NAME, RESERVE_NAME}


@pytest.mark.parametrize("before", [{}, {"old": b"1"}, {"new": b"2"}, {"old": b"1", "new": b"2"}], ids=str)
@pytest.mark.parametrize("changes", [writes(old=None, new=b"3"), writes(new=b"3", old=None)], ids=str)
async def test_a_record_that_follows_a_deleted_one_may_take_its_row(
    store: EmbeddedPointers, before: dict[str, bytes], changes: list[Change]
) -> None:
    """As each rename of a file does: whatever is there before, only the new record is there after it."""
    head = await put(store, await store.take_over(ROOT), writes(other=b"0", **before))
    await put(store, head, changes)
    assert (await taken_over(store))[1] == {"other": b"0", "new": b"3"}


async def test_other_tasks_run_between_the_batches_of_a_load(store: EmbeddedPointers) -> None:
    head = await store.take_over(ROOT)
    count = 20_000
    for begin in range(0, count, 1000):
        head = await put(store, head, [Change(f"k/{number}", b"x" * 50) for number in range(begin, begin + 1000)])
    head = await store.take_over(ROOT)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    assert len(await records(store, head)) == count
    running.cancel()
    assert turns >= count / 1000


async def test_batches_are_bounded_in_bytes_too(store: EmbeddedPointers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_journal, "_BATCH_BYTES", 250)
    changes = [Change(f"k{number}", bytes([number]) * 100) for number in range(100)]
    await put(store, await store.take_over(ROOT), changes)
    assert (await taken_over(store))[1] == dict(changes)


async def test_a_commit_in_the_middle_of_a_load_ends_it(
    store: EmbeddedPointers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than to give a part from before it and a part from after."""
    monkeypatch.setattr(sqlite_journal, "_BATCH_ROWS", 10)
    await put(store, await store.take_over(ROOT), [Change(f"k{number}", b"1") for number in range(50)])
    head = await store.take_over(ROOT)
    loading = store.load(head)
    await anext(loading)
    await put(store, head, writes(k0=None, k49=b"2"))
    with pytest.raises(TakeOverLost):
        _ = [change async for change in loading]


@pytest.mark.parametrize("deed", ["DELETE FROM head", "an older one"])
async def test_a_head_that_a_foreign_hand_takes_back_while_it_is_loaded_is_no_successors(
    store: EmbeddedPointers, file: Path, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    """Who leads would give its memory up, and nobody could lead on what is left."""
    monkeypatch.setattr(sqlite_journal, "_BATCH_ROWS", 10)
    ours = await put(store, await store.take_over(ROOT), [Change(f"k{number}", b"1") for number in range(50)])
    head = await store.take_over(ROOT, ours)
    loading = store.load(head)
    await anext(loading)
    with closing(sqlite3.connect(file, isolation_level=None)) as hand:
        if deed == "an older one":
            move_head(hand, ours)
        else:
            hand.execute(deed)
    with pytest.raises(StorageUnavailable, match="another program changed"):
        _ = [change async for change in loading]
    again = await store.take_over(ROOT, head)
    assert (again.term, again.revision) == (head.term + 1, head.revision + 1)
    assert len(await records(store, again)) == 50


async def test_a_cancelled_load_leaves_the_store_working(store: EmbeddedPointers) -> None:
    head = await put(store, await store.take_over(ROOT), [Change(f"k{number}", b"1") for number in range(3000)])
    head = await store.take_over(ROOT)
    loading = asyncio.create_task(records(store, head))
    await asyncio.sleep(0)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert len((await taken_over(store))[1]) == 3000


async def test_while_another_process_writes_a_commit_fails_for_certain(store: EmbeddedPointers, file: Path) -> None:
    head = await store.take_over(ROOT)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert refused(await store.commit(head, writes(a=b"1"), head.revision + 1)) is Refusal.FAILED
        with pytest.raises(StorageUnavailable, match="locked"):
            await store.take_over(ROOT)
        assert await store.confirm(head)
        assert await records(store, head) == {}
        other.execute("ROLLBACK")
    await put(store, head, writes(b=b"2"))
    assert (await taken_over(store))[1] == {"b": b"2"}


async def test_a_reader_holds_nothing_up(store: EmbeddedPointers, file: Path) -> None:
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    with closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM record").fetchone() == (1,)
        await put(store, head, writes(b=b"2"))
        assert (await taken_over(store))[1] == {"a": b"1", "b": b"2"}
        assert reader.execute("SELECT count(*) FROM record").fetchone() == (1,)


async def test_a_database_at_its_size_limit_is_full_and_takes_deletions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SQLite's own limit on pages, because it needs no disk that is really full (that one is in test_scarcity.py)."""
    real = sqlite_file.connect

    def connect(path: Path, busy_timeout: float, *, create: bool) -> sqlite3.Connection:
        connection = real(path, busy_timeout, create=create)
        connection.execute("PRAGMA max_page_count = 60")
        return connection

    monkeypatch.setattr(sqlite_place, "connect", connect)
    store = EmbeddedPointers(tmp_path)
    await store.open()
    head = await put(store, await store.take_over(ROOT), writes(a=b"x" * 100_000))
    assert refused(await store.commit(head, writes(b=b"x" * 200_000), head.revision + 1)) is Refusal.FULL
    head = await put(store, head, writes(a=None))
    await put(store, head, writes(b=b"x" * 100_000))
    assert (await taken_over(store))[1] == {"b": b"x" * 100_000}
    with pytest.raises(StorageFull):
        await store.take_over("n" * 200_000)
    await store.close()


async def test_room_that_was_denied_is_asked_for_again_though_nothing_is_written(
    store: EmbeddedPointers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that grows is, so no commit would ask. The disk has room, and a write is said to have found none."""
    monkeypatch.setattr(reserve, "_PAUSE_SECONDS", 0.0)
    assert store._journals.reserve.give_up()
    assert "a write found no room" in (store.full or "")

    async def there_is() -> bool:
        return store.full is None

    await until(there_is)
    assert (tmp_path / RESERVE_NAME).stat().st_size >= reserve.SMALLEST


async def test_nothing_is_committed_to_a_file_that_was_deleted(store: EmbeddedPointers, tmp_path: Path) -> None:
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    move_database(tmp_path, tmp_path / "moved")
    for _ in range(2):
        assert refused(await store.commit(head, writes(b=b"2"), head.revision + 1)) is Refusal.HEAD_MOVED
        assert not await store.confirm(head)
        for act in (store.take_over(ROOT), store.journals()):
            with pytest.raises(StorageUnavailable, match="moved, deleted or replaced"):
                await act
    move_database(tmp_path / "moved", tmp_path)
    assert (await taken_over(store))[1] == {"a": b"1"}


async def test_a_backup_is_led_once_the_loss_is_accepted_and_no_term_or_revision_comes_again(
    store: EmbeddedPointers, tmp_path: Path
) -> None:
    """The witness knows how far the journal had come."""
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    await store.close()
    shutil.copyfile(tmp_path / FILE_NAME, tmp_path / "backup")
    await store.open()
    first = await store.take_over(ROOT)
    await put(store, first, writes(b=b"after the backup"))
    await store.close()
    (tmp_path / "backup").replace(tmp_path / FILE_NAME)
    await store.open()
    with pytest.raises(JournalDamaged, match="revisions 3 to 4 are lost") as raised:
        await store.take_over(ROOT)
    await store.close()
    assert raised.value.loss is not None
    owners = EmbeddedPointers(tmp_path, accept_loss={raised.value.loss})
    await owners.open()
    second, found = await taken_over(owners)
    assert (second.term, second.revision) == (first.term + 1, first.revision + 2) == (head.term + 2, head.revision + 3)
    assert second.lineage != first.lineage
    assert found == {"a": b"1"}
    assert refused(await owners.commit(first, writes(c=b"late"), first.revision + 1)) is Refusal.HEAD_MOVED
    await owners.close()


async def another(directory: Path) -> Path:
    """Another deployment's database, with a journal of the same name that came much further."""
    other = EmbeddedPointers(directory)
    await other.open()
    for _ in range(5):
        head = await other.take_over(ROOT)
    await put(other, head, writes(other=b"1"))
    await other.close()
    return directory


async def test_a_file_that_was_replaced_in_use_is_not_written_to(store: EmbeddedPointers, tmp_path: Path) -> None:
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    other = await another(tmp_path / "other")
    move_database(tmp_path, tmp_path / "moved")
    move_database(other, tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes()
    assert refused(await store.commit(head, writes(b=b"2"), head.revision + 1)) is Refusal.HEAD_MOVED
    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize(
    "how", ["deleted", "deleted with its log", "replaced", "emptied", "cut short", "no database", "older"]
)
@pytest.mark.parametrize("probed", [False, True])
async def test_who_leads_makes_a_database_anew_that_a_foreign_hand_took(
    store: EmbeddedPointers, tmp_path: Path, how: str, probed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """For the caller to write what it remembers; and another process goes on with that file, without a restart.

    Also if somebody had asked for the journals before, which looks into the file that is there.
    """
    follower = EmbeddedPointers(tmp_path)
    await follower.open()
    file = tmp_path / FILE_NAME
    shutil.copyfile(file, tmp_path / "older")
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    ours = done(await store.commit(head, writes(b=b"2"), head.revision + 1, "2-" + "a" * 32))
    if how in ("deleted", "deleted with its log"):
        for suffix in ("", "-wal", "-shm") if how == "deleted with its log" else ("",):
            file.with_name(FILE_NAME + suffix).unlink()
    elif how == "replaced":
        move_database(await another(tmp_path / "other"), tmp_path)
    elif how == "cut short":
        os.truncate(file, 0)
    else:
        content = {"emptied": b"", "no database": b"nonsense" * 2000, "older": (tmp_path / "older").read_bytes()}
        (tmp_path / "put").write_bytes(content[how])
        (tmp_path / "put").replace(file)
    if probed:
        with suppress(BackendError):
            assert await store.journals() == [ROOT]
        assert not await store.confirm(ours)
    assert refused(await store.commit(ours, writes(c=b"3"), ours.revision + 1)) is Refusal.HEAD_MOVED
    taken = await store.take_over(ROOT, ours)
    assert taken.term > ours.term
    assert taken.revision > ours.revision
    if how != "replaced":
        assert (taken.term, taken.revision, taken.digest) == (ours.term + 1, ours.revision + 1, ours.digest)
        assert (await records(store, taken)).items() <= {"a": b"1", "b": b"2"}.items()
    assert file.with_name(f"{FILE_NAME}.damaged-1").exists() == (not how.startswith("deleted"))
    assert str(file) in caplog.text
    last = await put(store, taken, writes(a=b"1", b=b"2", other=None))
    assert file.stat().st_mode & 0o777 == 0o600
    assert await follower.journals() == [ROOT]
    next_head, found = await taken_over(follower)
    assert found == {"a": b"1", "b": b"2"}
    assert (next_head.term, next_head.revision) == (last.term + 1, last.revision + 1)
    assert refused(await store.commit(last, writes(c=b"3"), last.revision + 1)) is Refusal.HEAD_MOVED
    await follower.close()


async def test_who_does_not_lead_any_more_makes_nothing_anew(store: EmbeddedPointers, tmp_path: Path) -> None:
    """The witness tells of a later term than its own."""
    ours = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    successor = EmbeddedPointers(tmp_path)
    await successor.open()
    await put(successor, await successor.take_over(ROOT), writes(a=b"2"))
    move_database(tmp_path, tmp_path / "moved")
    with pytest.raises(StorageUnavailable, match="moved, deleted or replaced"):
        await store.take_over(ROOT, ours)
    assert FILE_NAME not in os.listdir(tmp_path)
    await successor.close()


async def test_a_backup_that_is_put_in_place_under_a_process_that_does_not_lead_has_to_prove_itself(
    store: EmbeddedPointers, file: Path
) -> None:
    await put(store, await store.take_over(ROOT), writes(a=b"1"))
    await store.close()
    shutil.copyfile(file, file.with_name("backup"))
    await store.open()
    await put(store, await store.take_over(ROOT), writes(b=b"after the backup"))
    file.with_name(f"{FILE_NAME}-wal").unlink()
    file.with_name("backup").replace(file)
    with pytest.raises(JournalDamaged, match="revisions 3 to 4 are lost"):
        await store.take_over(ROOT)


async def test_a_commit_is_not_acknowledged_whose_file_went_meanwhile(
    store: EmbeddedPointers, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be there again if the file is put back, so nobody can say that it was not committed."""
    ours = await put(store, await store.take_over(ROOT), writes(a=b"1"))

    def move(*_: object) -> bool:  # which comes after the look at the file
        file.unlink()
        return True

    with monkeypatch.context() as patch:
        patch.setattr(Moves, "move", move)
        end = await store.commit(ours, writes(b=b"2"), ours.revision + 1)
    assert isinstance(end, Unknown)
    assert "moved, deleted or replaced" in end.detail
    taken = await store.take_over(ROOT, ours)
    assert await records(store, await put(store, taken, writes(a=b"1", b=b"2"))) == {"a": b"1", "b": b"2"}


async def test_a_witness_that_cannot_be_written_makes_no_commit_fail_and_is_reported_once(
    store: EmbeddedPointers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / WITNESS_NAME).symlink_to(tmp_path / "absent" / "witness")
    head = await store.take_over(ROOT)
    for number in range(3):
        head = await put(store, head, writes(a=bytes([number])))
    assert [record.levelname for record in caplog.records if "witness" in record.message] == ["ERROR"]
    (tmp_path / "absent").mkdir()
    head = await put(store, head, writes(a=b"1"))
    assert FileWitness(tmp_path / WITNESS_NAME).ask(ROOT) == (head, None)


async def test_a_store_that_could_not_be_opened_can_be_later(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    file.write_bytes(b"garbage" * 1000)
    store = EmbeddedPointers(tmp_path)
    with pytest.raises(JournalDamaged):
        await store.open()
    with pytest.raises(StorageUnavailable):
        await store.take_over(ROOT)
    file.unlink()
    await store.open()
    assert (await store.take_over(ROOT)).term == 1
    await store.close()


async def test_groups_that_were_handed_over_before_the_close_end_as_what_they_are(tmp_path: Path) -> None:
    store = EmbeddedPointers(tmp_path)
    await store.open()
    head = await store.take_over(ROOT)
    flight = asyncio.ensure_future(store.commit(head, writes(a=b"1"), head.revision + 1))
    late = asyncio.ensure_future(store.commit(head, writes(b=b"1"), head.revision + 1))
    await asyncio.sleep(0)
    await store.close()
    assert isinstance(await flight, Done)
    assert isinstance(await late, CommitRefused)
    await store.open()
    assert done(await flight).revision == head.revision + 1
    assert (await taken_over(store))[1] == {"a": b"1"}
    await store.close()


async def test_a_path_that_cannot_be_looked_at_is_an_outage(tmp_path: Path) -> None:
    """A file stands where the directory was."""
    directory = tmp_path / "pointers"
    store = EmbeddedPointers(directory)
    await store.open()
    head = await store.take_over(ROOT)
    directory.rename(tmp_path / "away")
    directory.write_bytes(b"")
    for act in (store.take_over(ROOT), store.journals(), store.confirm(head)):
        with pytest.raises(StorageUnavailable, match="cannot look at"):
            await act
    assert refused(await store.commit(head, writes(a=b"1"), head.revision + 1)) is Refusal.FAILED
    directory.unlink()
    (tmp_path / "away").rename(directory)
    await put(store, head, writes(a=b"1"))
    await store.close()
