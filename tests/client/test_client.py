"""What a client offers beside sessions and stores; credentials; the example in the documentation."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import milepost
from milepost.aio import AsyncClient, AsyncSession, AsyncStateHandleStore
from milepost.errors import ERROR_OF
from tests.client.conftest import Service, eventually, serving
from tests.client.flavours import connected


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that asks for tokens."""
    data = tmp_path_factory.mktemp("guarded")
    tokens = data / "tokens"
    tokens.write_text("driver the-token-of-drivers\nviewer the-token-of-viewers read-only\n")
    tokens.chmod(0o600)
    with serving(data, "--token-file", str(tokens)) as running:
        yield running


def test_a_status_names_the_leader(client: Any, service: Service) -> None:
    status = client.status()
    assert (status.role, status.leader) == ("leader", service.url)
    assert status.term >= 1


def test_a_client_without_a_name_may_do_everything(client: Any) -> None:
    assert client.whoami() == milepost.Rights(None, ("*",), ("*",), admin=True)


def test_the_leader_steps_down_for_its_term_alone(flavour: str, tmp_path: Path) -> None:
    with serving(tmp_path) as running, connected(flavour, running.url) as client:
        before = client.status()
        assert client.step_down(before.term) == milepost.SteppedDown(before.replica, before.term)
        eventually(lambda: client.status().role == "leader")  # it has no other
        with pytest.raises(milepost.Fenced):
            client.step_down(before.term)
        assert client.status().term == before.term + 1
        assert client.status().epochs_above == 0


def test_stores_are_listed(client: Any, name: str) -> None:
    with client.session(holder="a") as session:
        session.store(name).add_and_lock("latest", b"state")
    (summary,) = [summary for summary in client.stores() if summary.store == name]
    assert summary.handles == 1
    assert summary.revision > 0


def test_a_job_is_described_as_a_whole(client: Any, name: str) -> None:
    with pytest.raises(milepost.NotExist):
        client.job_info(name)
    process = milepost.Process("spark-1", 4711, "app-7", "http://spark-1:4040")
    with client.session(holder="a", process=process) as session:
        store = session.store(name)
        epoch = store.campaign()
        led = store.under(epoch.epoch)
        for batch in range(3):
            led.files.write(f"checkpoint/commits/{batch}", b"v1")
        job = client.job_info(name)
        assert (job.state, job.epoch, job.process, job.standbys) == ("led", epoch, process, ())
        assert 0 < job.expires_in <= session.ttl
        assert (job.batch.directory, job.batch.batch) == ("checkpoint", 2)
        assert job.batches_an_hour > 0
        store.resign()
    resigned = client.job_info(name)
    assert (resigned.state, resigned.process, resigned.expires_in) == ("resigned", None, None)


def test_a_job_has_a_history(client: Any, name: str) -> None:
    with pytest.raises(milepost.NotExist):
        list(client.job_history(name))
    process = milepost.Process("spark-1", 4711)
    with client.session(holder="a", process=process) as session:
        store = session.store(name)
        epoch = store.campaign()
        led = store.under(epoch.epoch)
        for batch in range(3):
            led.files.write(f"checkpoint/commits/{batch}", b"v1")
        first, *_ = led.files.snapshots().snapshots
        assert led.report_rows("checkpoint", {0: 3, 1: 0, 9: 5}) == 2
        led.files.make_savepoint("kept", first.revision)
        led.files.roll_back(first.revision)
        led.files.write("checkpoint/commits/1", b"v1")
        store.resign()
    entries = list(client.job_history(name))
    assert [entry.kind for entry in entries] == [
        "epoch-ended",
        "batch-committed",
        "rolled-back",
        "savepoint-made",
        *["batch-committed"] * 3,
        "epoch-granted",
    ]
    ended, again, back, made, *batches, granted = entries
    assert [each.input_rows for each in batches] == [None, 0, 3], "what nobody reported is unknown, and not 0"
    assert (ended.epoch, ended.how, ended.since, ended.process) == (1, "resigned", granted.at, process)
    assert (granted.epoch, granted.session, granted.holder) == (1, epoch.session, "a")
    assert (again.batch, again.directory, again.replay, entries[4].replay) == (1, "checkpoint", True, False)
    assert (back.batch, back.snapshot, back.previous_batch) == (0, first.revision, 2)
    assert (made.savepoint, made.snapshot, made.batch) == ("kept", first.revision, 0)
    assert list(client.job_events(name, existing=True, timeout=10.0)) == entries[::-1]
    assert list(client.job_events(name, timeout=10.0)) == []
    after = client.job_events(name, after=entries[5].id, timeout=2.0)
    assert list(after) == entries[:5][::-1]
    with client.session() as session:
        again, saved = session.store(f"{name}-again"), granted.at
        with pytest.raises(milepost.InvalidRequest):  # this service may still grant the epoch
            again.restore_history([granted], saved, name)
        asked = milepost.HistoryEntry("stop-requested", at=saved, revision=7, holder="anna", reason="release")
        assert again.restore_history([asked], saved, name) == 1
        with pytest.raises(milepost.AlreadyExists):
            again.restore_history([asked], saved, "other")
    said, restored = client.job_history(f"{name}-again")
    assert (said.kind, said.since, said.source, said.entries) == ("history-restored", saved, name, 1)
    assert (restored.at, restored.holder, restored.restored, said.restored) == (saved, "anna", True, False)
    assert restored.revision == said.revision


def test_the_rate_of_a_job_needs_two_batches_of_one_query() -> None:
    began = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def rate(*batches: tuple[str, int, int]) -> float | None:
        snapshots = [
            milepost.Snapshot(directory, batch, number, taken=began + timedelta(seconds=seconds))
            for number, (directory, batch, seconds) in enumerate(batches)
        ]
        kept = milepost.KeptSnapshots(snapshots, [])
        info = milepost.JobInfo("j", "led", milepost.Epoch(1), 1.0, (), 0, kept, 0, 0, began)
        of_list = milepost.JobSummary("j", "led", milepost.Epoch(1), 0, info.batch, first_of(info), 0, began)
        assert of_list.batches_an_hour == info.batches_an_hour
        return info.batches_an_hour

    def first_of(info: milepost.JobInfo) -> milepost.Snapshot | None:
        """What the service gives as the oldest snapshot of the query of the last batch."""
        of_query = [each for each in info.kept.snapshots if info.batch and each.directory == info.batch.directory]
        return of_query[0] if of_query else None

    assert rate() is None
    assert rate(("q", 1, 0)) is None
    assert rate(("other", 1, 0), ("q", 1, 10)) is None
    assert rate(("q", 1, 10), ("q", 2, 10)) is None
    assert rate(("q", 1, 0), ("other", 9, 5), ("q", 5, 40)) == 360.0


def test_the_age_of_a_batch_is_that_of_the_service_whatever_this_machine_takes_for_the_time(
    client: Any, name: str
) -> None:
    with client.session(holder="a") as session:
        store = session.store(name)
        store.under(store.campaign().epoch).files.write("checkpoint/commits/0", b"v1")
        (listed,) = (job for job in client.jobs() if job.job == name)
        for job in (client.job_info(name), listed):
            assert job.age >= 0
            later = replace(job, now=job.batch.taken + timedelta(seconds=90))
            assert later.age == 90.0
            assert replace(job, now=job.batch.taken - timedelta(seconds=1)).age == 0.0
        store.resign()


def test_the_list_of_jobs_says_of_each_what_its_description_says(client: Any, name: str) -> None:
    with client.session(holder="a") as session:
        store = session.store(name)
        led = store.under(store.campaign().epoch)
        for batch in range(2):
            led.files.write(f"checkpoint/commits/{batch}", b"v1")
        session.store(f"{name}-plain").add_and_lock("a", b"state")
        found = {job.job: job for job in client.jobs()}
        assert f"{name}-plain" not in found
        listed, info = found[name], client.job_info(name)
        assert (listed.state, listed.epoch, listed.standby_count) == (info.state, info.epoch, info.standby_count)
        assert (listed.batch, listed.batch.taken) == (info.batch, info.batch.taken)
        assert (listed.oldest.batch, listed.batches_an_hour) == (0, info.batches_an_hour)
        store.resign()


def test_a_session_that_never_was(client: Any) -> None:
    with pytest.raises(milepost.SessionUnknown):
        client.session_info("never-seen")
    with pytest.raises(milepost.InvalidName):
        client.session_info("../status")


def test_a_token_opens_the_door(guarded: Service, flavour: str, name: str) -> None:
    with (
        connected(flavour, guarded.url, token="the-token-of-drivers") as client,
        client.session(holder="a") as session,
    ):
        session.store(name).add_and_lock("latest", b"state")
    with connected(flavour, guarded.url, token=lambda: "the-token-of-viewers") as viewer:
        assert viewer.store(name).read("latest") == b"state"
        assert viewer.whoami() == milepost.Rights("viewer", ("*",), (), admin=False)
        with pytest.raises(milepost.AccessDenied) as raised:
            viewer.session(holder="b").__enter__()
        assert raised.value.status == 403


@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_the_right_token_it_stays_shut(guarded: Service, flavour: str, token: str | None) -> None:
    with connected(flavour, guarded.url, token=token) as client, pytest.raises(milepost.AccessDenied) as raised:
        client.store("s").exists("latest")
    assert raised.value.status == 401


def test_the_environment_says_where_the_service_is_and_what_opens_it(
    guarded: Service, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_URL", f" http://127.0.0.1:1, {guarded.url}")
    monkeypatch.setenv("MILEPOST_TOKEN", "the-token-of-viewers")
    with connected(flavour, timeout=20.0) as client:
        assert set(client.addresses) == {"http://127.0.0.1:1", guarded.url}
        assert client.store("nothing").exists("latest") is None
    with connected(flavour, token="wrong", timeout=20.0) as client, pytest.raises(milepost.AccessDenied):
        client.store("nothing").exists("latest")


def test_the_token_of_the_environment_is_for_the_address_of_the_environment(
    guarded: Service, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("MILEPOST_TOKEN", "the-token-of-viewers")
    with connected(flavour, guarded.url, timeout=20.0) as client, pytest.raises(milepost.AccessDenied):
        client.store("nothing").exists("latest")


def test_a_token_file_is_read_again(guarded: Service, flavour: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("an-old-token\n")
    with connected(flavour, guarded.url, token_file=file, timeout=20.0) as client:
        with pytest.raises(milepost.AccessDenied):
            client.store("nothing").exists("latest")
        file.write_text("the-token-of-viewers\n")
        assert client.store("nothing").exists("latest") is None


def test_a_token_that_expired_is_asked_for_once_more(guarded: Service, flavour: str) -> None:
    tokens = iter(["an-old-token", "the-token-of-viewers", "an-old-token", "an-old-token"])
    with connected(flavour, guarded.url, token=lambda: next(tokens), timeout=20.0) as client:
        assert client.store("nothing").exists("latest") is None
        with pytest.raises(milepost.AccessDenied):
            client.store("nothing").exists("latest")
    assert next(tokens, None) is None


@pytest.mark.anyio
async def test_a_coroutine_function_gives_tokens(guarded: Service) -> None:
    asked: list[int] = []

    async def token() -> str:
        await anyio.lowlevel.checkpoint()
        asked.append(threading.get_ident())
        return "the-token-of-viewers" if len(asked) > 1 else "an-old-token"

    async with AsyncClient(guarded.url, token=token, timeout=20.0) as client:
        assert await client.store("nothing").exists("latest") is None
        assert asked == [threading.get_ident()] * 2

    async def broken() -> str:
        raise FileNotFoundError("/var/run/secrets/token")

    async with AsyncClient(guarded.url, token=broken, timeout=20.0) as client:
        with pytest.raises(milepost.AccessDenied, match="FileNotFoundError"):
            await client.status()


@pytest.mark.anyio
async def test_a_function_that_blocks_holds_up_no_event_loop(guarded: Service) -> None:
    """The function waits for something that only the event loop can do."""
    goes_on = threading.Event()

    def token() -> str:
        assert goes_on.wait(60.0)
        return "the-token-of-viewers"

    async with AsyncClient(guarded.url, token=token, timeout=60.0) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.store("nothing").exists, "latest")
        await anyio.sleep(0.05)
        goes_on.set()


def test_the_environment_may_name_a_file_with_the_token(
    guarded: Service, flavour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("the-token-of-viewers")
    monkeypatch.setenv("MILEPOST_URL", guarded.url)
    monkeypatch.setenv("MILEPOST_TOKEN_FILE", str(file))
    monkeypatch.setenv("MILEPOST_TOKEN", "")
    with connected(flavour, timeout=20.0) as client:
        assert client.store("nothing").exists("latest") is None
    monkeypatch.setenv("MILEPOST_TOKEN", "wrong")  # counts before the file
    with connected(flavour, timeout=20.0) as client, pytest.raises(milepost.AccessDenied):
        client.store("nothing").exists("latest")
    with connected(flavour, timeout=20.0, token_file=file) as client:
        assert client.store("nothing").exists("latest") is None


def test_a_file_of_the_environment_is_not_read_for_another_address(
    flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MILEPOST_TOKEN_FILE", "MILEPOST_CA", "MILEPOST_CERT", "MILEPOST_KEY"):
        monkeypatch.setenv(name, "/does/not/exist")
    with connected(flavour, "http://127.0.0.1:1"):
        pass
    monkeypatch.setenv("MILEPOST_URL", "http://127.0.0.1:1")
    with pytest.raises(ValueError, match="cannot use the file of a token /does/not/exist: No such file"):
        milepost.Client()


def test_an_error_names_the_line_in_the_log_of_the_service(tmp_path: Path, flavour: str) -> None:
    with (
        serving(tmp_path, "--log-level", "info") as running,
        connected(flavour, running.url, timeout=20.0) as client,
        pytest.raises(milepost.NotExist) as raised,
    ):
        client.store("nothing").get("latest")
    logged = (tmp_path / "log").read_text().splitlines()
    (line,) = [line for line in logged if f" {raised.value.request_id} " in line]
    assert "GET /v1/stores/nothing/handles/latest 404" in line


@pytest.mark.parametrize("client_class", [milepost.Client, AsyncClient])
@pytest.mark.parametrize("given", [None, "", " , "])
def test_without_any_address_it_says_where_to_give_one(
    client_class: type[Any], given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILEPOST_URL", raising=False)
    if given is not None:
        monkeypatch.setenv("MILEPOST_URL", given)
    with pytest.raises(ValueError, match="give one to the client, or set MILEPOST_URL"):
        client_class()


@pytest.mark.parametrize("client_class", [milepost.Client, AsyncClient])
def test_wrong_settings_are_refused(client_class: type[Any]) -> None:
    with pytest.raises(ValueError, match="begins neither with http:// nor with https://"):
        client_class("localhost:7070")
    with pytest.raises(ValueError, match="timeout"):
        client_class("http://localhost:7070", timeout=0)
    with pytest.raises(ValueError, match="timeout"):
        client_class("http://localhost:7070", timeout=float("nan"))


@pytest.mark.parametrize(
    ("blocking_class", "asynchronous_class"),
    [
        (milepost.Client, AsyncClient),
        (milepost.Session, AsyncSession),
        (milepost.StateHandleStore, AsyncStateHandleStore),
    ],
)
def test_both_flavours_offer_the_same(blocking_class: type[Any], asynchronous_class: type[Any]) -> None:
    def offered(kind: type[Any]) -> dict[str, list[str]]:
        members = inspect.getmembers(kind, lambda member: inspect.isfunction(member) or isinstance(member, property))
        return {
            name: list(inspect.signature(member).parameters) if inspect.isfunction(member) else []
            for name, member in members
            if not name.startswith("_")
        }

    assert offered(blocking_class) == offered(asynchronous_class)


def test_the_example_works_when_pasted(service: Service, tmp_path: Path) -> None:
    assert milepost.__doc__ is not None
    block = milepost.__doc__.split("::\n", 1)[1].split("\n\n`milepost.aio`")[0]
    program = tmp_path / "example.py"
    program.write_text(inspect.cleandoc(block).replace("http://127.0.0.1:7070", service.url))
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-W", "error", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.startswith("b'batch 8' ")
        assert ended.stderr == ""


def test_the_package_exports_what_it_says() -> None:
    assert all(hasattr(milepost, name) for name in milepost.__all__)
    answered = {error.__name__ for error in ERROR_OF.values()}
    assert answered - {"UploadUnknown", "Compacted"} <= set(milepost.__all__)


def test_the_version_is_that_of_the_distribution() -> None:
    assert milepost.__version__ == version("milepost")


def test_the_spark_side_says_what_it_needs() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import milepost.spark"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "ModuleNotFoundError: milepost.spark needs pyspark: pip install 'milepost[spark]'" in ran.stderr
