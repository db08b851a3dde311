"""What the console says of jobs, and what a person does with one, by clicks alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Route, expect

import milepost
from milepost.restoring import restore
from testbed.server import ServerProcess
from tests.client.published_job import begin
from tests.page.files import commit_batch
from tests.page.screen import Screen
from tests.page.story import driver, live_through, stand_by


@pytest.fixture(scope="module")
def story(server: ServerProcess) -> Iterator[None]:
    """The job `flights`, which has a past."""
    with ExitStack() as running:
        client = running.enter_context(milepost.Client(server.url))
        live_through(running, client, server, "flights")
        yield


def lose_the_answer(route: Route) -> None:
    """Let the service do what it is asked, and cut the connection before its answer."""
    route.fetch()
    route.abort()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[milepost.Client]:
    with milepost.Client(server.url) as made:
        yield made


@pytest.mark.usefixtures("story")
def test_a_job_answers_what_its_owner_asks(screen: Screen, server: ServerProcess) -> None:
    screen.open(server.url)
    expect(screen.row("flights")).to_contain_text("Led")
    expect(screen.row("flights")).to_contain_text("1 standby")
    screen.row("flights").get_by_role("link").click()
    screen.live()

    leader = screen.part("Who leads")
    expect(leader).to_contain_text("flights@spark-2")
    expect(leader).to_contain_text("epoch 2")
    expect(leader.get_by_role("link", name="spark-2:4040")).to_have_attribute("href", "http://spark-2:4040")
    standbys = screen.part("Standbys")
    expect(standbys).to_contain_text("flights@spark-3")
    expect(standbys).to_contain_text("It waits because flights@spark-2 holds epoch 2 and keeps its session alive")
    batches = screen.part("Batches")
    expect(batches).to_contain_text("Batch 5")
    expect(batches).to_contain_text(re.compile(r"Batch 6 runs, begun \d+ (s|min) ago\."))
    expect(batches.get_by_role("img", name="Intervals between the last 8 batches")).to_be_visible()
    assert screen.pair(batches, "Committed again") == "1"
    assert screen.pair(batches, "Longest interval of the last 7") != ""
    expect(batches.locator("figcaption")).to_have_text(["Time between two batches", "Rows of each batch"])
    expect(batches).to_contain_text("Orange: committed again.")
    expect(batches.get_by_role("img", name="Rows of the last 4 batches")).to_be_visible()
    assert screen.pair(batches, "Rows of the last batch") == "395, usually 402"

    expect(screen.part("What became of it").get_by_role("navigation")).to_have_text(re.compile("^Draw the last"))
    past = screen.part("What became of it").get_by_role("listitem")
    expect(past.filter(has_text="flights@spark-1 ended: its session was ended by a request")).to_be_visible()
    expect(past.filter(has_text="flights@spark-2 on spark-2 leads under epoch 2")).to_contain_text("No driver led for")
    expect(past.filter(has_text="Restored to batch 4")).to_contain_text("The 2 batches from 5 to 6 count no more")
    expect(past.filter(has_text="Batch 5 committed again")).to_be_visible()

    point = screen.part("Where a restore leads").get_by_role("row").filter(has_text="before-upgrade")
    expect(point.get_by_role("cell").nth(3)).to_have_text("2 batches")
    passed_over = screen.part("Where a restore leads").get_by_role("row").filter(has_text="with-a-bug")
    expect(passed_over.get_by_role("cell").nth(3)).to_have_text(
        re.compile(r"^the restore of \d+:\d+:\d+, up to batch 6, and the batches since$")
    )
    point.get_by_role("button", name="Restore").click()
    expect(screen.dialog).to_contain_text(re.compile(r"Restore flights to before-upgrade \(batch 3, \d+ (s|min) ago\)"))
    expect(screen.dialog).to_contain_text("This undoes 2 batches.")
    expect(screen.dialog).to_contain_text("the next batch is 4, from the offsets after batch 3")
    expect(screen.dialog).to_contain_text("flights@spark-2 leads, so it would be refused. Press Stop… first")
    expect(screen.dialog.get_by_role("button")).to_have_text(["Close"])
    screen.page.keyboard.press("Escape")
    expect(screen.dialog).to_have_count(0)


@pytest.mark.usefixtures("story")
def test_the_address_keeps_how_the_jobs_are_filtered(
    screen: Screen, server: ServerProcess, client: milepost.Client
) -> None:
    with driver(client, "orders", "spark-9") as session:
        session.store("orders").campaign()
        session.store("orders").resign()
    for holder in ("anna@laptop:4711 (milepost files savepoint)", "console (milepost jobs restore)"):
        for job in ("orders", "never-led"):
            with client.session(holder=holder) as command:
                command.store(job).campaign()
                command.store(job).resign()
    screen.open(f"{server.url}/#/jobs/orders")
    past = screen.part("What became of it")
    expect(past).to_contain_text("until now")
    assert screen.pair(past, "take-overs") == "0", "a command that takes an epoch drives no query"
    expect(past).to_contain_text("console (milepost jobs restore) takes epoch 3, and drives no query")
    expect(past).not_to_contain_text("No driver led for")
    expect(past.locator("svg .span")).to_have_count(1)
    expect(screen.page.get_by_text("The driver of epoch 1 stopped in order")).to_be_visible()
    screen.open(f"{server.url}/#/jobs/never-led")
    expect(screen.page.get_by_text("No driver ever led.")).to_be_visible()
    screen.open(server.url)
    screen.page.get_by_role("link", name="Resigned").click()
    expect(screen.row("orders")).to_contain_text("Resigned")
    expect(screen.row("flights")).to_have_count(0)
    screen.page.reload()
    expect(screen.live().row("orders")).to_be_visible()
    screen.page.get_by_role("link", name="All").click()
    expect(screen.row("flights")).to_be_visible()
    screen.page.keyboard.press("/")
    screen.page.keyboard.type("spark-2")
    expect(screen.row("orders")).to_have_count(0)
    assert screen.page.url.endswith("/#/?q=spark-2")
    screen.page.keyboard.press("ArrowDown")
    assert screen.focused() == "flights"
    screen.page.keyboard.press("Enter")
    expect(screen.live().heading).to_have_text("flights")


def test_a_point_says_what_a_restore_to_it_undoes_also_after_a_restore_was_undone(
    screen: Screen, server: ServerProcess, client: milepost.Client
) -> None:
    wanted = begin(client, "undone")
    screen.open(f"{server.url}/#/jobs/undone")

    def expect_points(*told: tuple[str, str]) -> None:
        """Each point by what it is and what it undoes; `T` is a time."""
        rows = screen.later().part("Where a restore leads").locator("tbody tr")
        points = [re.compile(rf"^@\d+ {each}$".replace("T", r"\d+:\d+:\d+")) for each, _ in told]
        expect(rows.locator("th")).to_have_text(points)
        expect(rows.locator("td:nth-child(5)")).to_have_text(
            [re.compile(f"^{each}$".replace("T", r"\d+:\d+:\d+")) for _, each in told]
        )

    with client.session(holder="anna") as session:
        store = session.store("undone")
        store.campaign()
        undo = restore(store, wanted).undo
        expect_points(
            ("right before the restore of T", "the restore of T"),
            ("passed over by the restore of T", "the restore of T, up to batch 3"),
            ("passed over by the restore of T", "the restore of T, up to batch 2"),
            ("snapshot, the job is here", "nothing"),
            ("snapshot", "1 batch"),
        )
        assert undo is not None
        restore(store, undo)
        expect_points(
            ("right before the restore of T", "the restore of T"),
            ("right before the restore of T, the job is here", "nothing"),
            ("snapshot", "nothing"),
            ("snapshot", "1 batch"),
            ("snapshot", "2 batches"),
            ("snapshot", "3 batches"),
        )


def test_a_batch_shows_at_once(screen: Screen, server: ServerProcess, client: milepost.Client) -> None:
    """The clock of the page stands still, so that it does not poll: only the event makes it ask."""
    with driver(client, "moving", "spark-1") as session:
        session.store("moving").campaign()
        with screen.page.expect_response("**/v1/stores/moving/events"):
            screen.open(f"{server.url}/#/jobs/moving")
        screen.still(after=4)
        commit_batch(server, "moving", 0)
        expect(screen.part("Batches")).to_contain_text("Batch 0")


def test_a_savepoint_is_made_once_though_the_answer_was_lost(
    screen: Screen, server: ServerProcess, client: milepost.Client
) -> None:
    with driver(client, "kept", "spark-1") as session:
        store = session.store("kept")
        store.campaign()
        commit_batch(server, "kept", 0)
        screen.open(f"{server.url}/#/jobs/kept")

        screen.page.route("**/tree/savepoints/*", lose_the_answer, times=1)
        screen.page.get_by_role("button", name="Make a savepoint…", exact=True).click()
        expect(screen.dialog).to_contain_text("Keeps the newest snapshot, batch 0 or")
        screen.dialog.get_by_label("Name of the savepoint").fill("release-1")
        screen.page.keyboard.press("Enter")
        expect(screen.dialog).to_contain_text("It is not known whether it was done: no connection")
        assert screen.barriers() == []
        screen.dialog.get_by_role("button", name="Ask again").click()
        expect(screen.dialog).to_contain_text("The savepoint release-1 is made.")
        screen.dialog.get_by_role("button", name="Close").click()
        made = [each for each in client.job_history("kept") if each.kind == "savepoint-made"]
        assert [each.holder for each in made] == ["console"]

        point = screen.part("Where a restore leads").get_by_role("row").filter(has_text="release-1")
        point.get_by_role("button", name="Drop").click()
        drop = screen.dialog.get_by_role("button", name="Drop")
        expect(drop).to_be_disabled()
        screen.dialog.get_by_label("to confirm").fill("release")
        expect(drop).to_be_disabled()
        screen.dialog.get_by_label("to confirm").fill("release-1")
        drop.click()
        expect(screen.dialog).to_contain_text("The savepoint release-1 is dropped.")
        assert store.files.snapshots().savepoints == []


def test_a_job_is_restored_cloned_and_dropped_after_a_dry_run_of_each(
    screen: Screen, server: ServerProcess, client: milepost.Client
) -> None:
    with driver(client, "acted", "spark-1") as session:
        store = session.store("acted")
        store.campaign()
        for batch in range(4):
            commit_batch(server, "acted", batch)
        store.files.make_savepoint("before-the-bug", store.files.snapshots().snapshots[1].revision)
        store.report_rows("checkpoint", {0: 10, 1: 11, 2: 12, 3: 13})
        store.resign()
    screen.open(f"{server.url}/#/jobs/acted")
    point = screen.part("Where a restore leads").get_by_role("row").filter(has_text="before-the-bug")
    point.get_by_role("button", name="Restore").click()
    restore = screen.dialog.get_by_role("button", name="Restore")
    expect(screen.dialog).to_contain_text("the next batch is 2, from the offsets after batch 1")
    assert screen.barriers() == []
    expect(restore).to_be_disabled()
    with driver(client, "acted", "spark-2") as session:  # another driver leads the job before the name is typed
        store = session.store("acted")
        store.campaign()
        store.resign()
    screen.dialog.get_by_label("to confirm").fill("acted")
    restore.click()
    expect(screen.dialog).to_contain_text("Refused, and nothing was changed: the epoch of acted is 2 now")
    screen.dialog.get_by_role("button", name="Dry run").click()
    screen.dialog.get_by_label("to confirm").fill("acted")

    screen.page.route("**/jobs/acted/restore", lose_the_answer, times=1)
    restore.click()
    expect(screen.dialog).to_contain_text("It is not known whether it was done: no connection")
    screen.dialog.get_by_role("button", name="Ask again").click()
    expect(screen.dialog).to_contain_text("acted is back at batch 1. A restore to @")
    screen.dialog.get_by_role("button", name="Close").click()
    (made,) = (each for each in client.job_history("acted") if each.kind == "rolled-back")
    assert (made.holder, made.epoch, made.batch) == ("console (milepost jobs restore)", 3, 1)
    batches = screen.part("Batches")
    expect(batches).to_contain_text("Batch 1")
    assert screen.pair(batches, "Rows of the last batch") == "11, usually 12", "those of the batch that it is back at"

    screen.page.get_by_role("button", name="Clone").click()
    screen.dialog.get_by_label("Name of the clone").fill("acted-fix")
    screen.page.keyboard.press("Enter")
    expect(screen.dialog).to_contain_text("begins empty")
    with pytest.raises(milepost.NotExist):
        client.job_info("acted-fix")
    screen.dialog.get_by_role("button", name="Clone").click()
    expect(screen.dialog).to_contain_text("acted-fix begins after batch 1, with 2 files of")
    screen.dialog.get_by_role("button", name="Close").click()

    def ask_another_leader(route: Route) -> None:
        route.continue_(headers={**route.request.headers, "idempotency-key": "not-known-there"})

    screen.page.get_by_role("button", name="Clone").click()
    screen.dialog.get_by_label("Name of the clone").fill("acted-again")
    screen.page.keyboard.press("Enter")
    expect(screen.dialog).to_contain_text("begins empty")
    screen.page.route("**/jobs/acted-again/clone", lose_the_answer, times=1)
    screen.dialog.get_by_role("button", name="Clone").click()
    expect(screen.dialog).to_contain_text("It is not known whether it was done: no connection")
    screen.page.route("**/jobs/acted-again/clone", ask_another_leader, times=1)
    screen.dialog.get_by_role("button", name="Ask again").click()
    expect(screen.dialog).to_contain_text("Refused this time: the job acted-again has files")
    expect(screen.dialog).to_contain_text("An earlier try may have been done")
    screen.page.keyboard.press("Escape")

    screen.page.get_by_role("button", name="Rescale").click()
    screen.dialog.get_by_label("Partitions").fill("7")
    screen.page.keyboard.press("Enter")
    expect(screen.dialog).to_contain_text("It cannot be done, and nothing was changed")
    screen.page.keyboard.press("Escape")

    screen.open(f"{server.url}/#/jobs/acted-fix")
    screen.page.get_by_role("button", name="Drop").click()
    expect(screen.dialog).to_contain_text(re.compile("0 handles, 1 snapshot(?!s)"))
    drop = screen.dialog.get_by_role("button", name="Drop")
    expect(drop).to_be_disabled()
    screen.dialog.get_by_label("to confirm").fill("acted-fix")
    drop.click()
    expect(screen.dialog).to_contain_text("acted-fix is dropped.")
    screen.page.keyboard.press("Escape")
    expect(screen.page.get_by_text("The job was dropped")).to_be_visible()
    assert client.job_info("acted-fix").state == "dropped"
    expect(screen.page.locator(".acts").get_by_role("button")).to_have_count(0)
    expect(screen.part("Who leads")).to_contain_text("A driver that is started begins a new job")


def test_a_job_is_handed_over_stopped_and_started(
    screen: Screen, server: ServerProcess, client: milepost.Client
) -> None:
    with ExitStack() as running:
        leading = live_through(running, client, server, "moved")
        screen.open(f"{server.url}/#/jobs/moved")
        leader = screen.part("Who leads")
        screen.page.get_by_role("button", name="Hand over").click()
        expect(screen.dialog).to_contain_text("Then moved@spark-3 leads at once, and runs no batch again.")
        screen.dialog.get_by_label("Reason").fill("drain of spark-2")
        screen.dialog.get_by_role("button", name="Hand over").click()
        expect(screen.dialog).to_contain_text("moved@spark-2 is asked to hand over.")
        assert leading.wait_for_wish(timeout=60.0) is not None
        expect(screen.page.get_by_text("console asked to hand over epoch 2")).to_contain_text("drain of spark-2")
        leading.resign()
        expect(screen.dialog).to_contain_text("moved@spark-3 leads under epoch 3.")
        screen.dialog.get_by_role("button", name="Close").click()
        expect(leader).to_contain_text("moved@spark-3")
        expect(leader).to_contain_text("epoch 3")
        expect(screen.part("Batches")).to_contain_text(
            re.compile(r"begun \d+ (s|min) ago under epoch 2, was not committed")
        )

        for host in ("spark-4", "spark-5"):
            stand_by(running, driver(client, "moved", host), "moved")
        standbys = screen.part("Standbys")
        expect(standbys).to_contain_text("moved@spark-4")
        expect(standbys).to_contain_text("moved@spark-5")
        screen.page.get_by_role("button", name="Hand over…", exact=True).click()
        expect(screen.dialog).to_contain_text("Then the first of 2 standbys that asks leads at once")
        screen.page.keyboard.press("Escape")
        screen.page.get_by_role("button", name="Stop…", exact=True).click()
        screen.dialog.get_by_label("Savepoint").fill("the-last")
        screen.dialog.get_by_label("to confirm").fill("moved")
        screen.dialog.get_by_role("button", name="Stop").click()
        expect(screen.dialog).to_contain_text("moved@spark-3 is asked to stop.")
        screen.page.keyboard.press("Escape")
        expect(screen.page.locator(".head")).to_contain_text("Stopping")
        expect(standbys).to_contain_text("nobody leads until the job is started")

        screen.page.get_by_role("button", name="End its session…", exact=True).click()
        expect(screen.dialog).to_contain_text("Nobody leads until the job is started")
        screen.dialog.get_by_label("to confirm").fill("moved")
        screen.dialog.get_by_role("button", name="End its session").click()
        expect(screen.dialog).to_contain_text("The session of moved@spark-3 is ended.")
        screen.page.keyboard.press("Escape")
        expect(screen.page.locator(".head")).to_contain_text("Stopped")
        expect(leader).to_contain_text("no driver is granted the next epoch until the job is started")
        expect(screen.notice("console asked to stop")).to_contain_text("There is no savepoint the-last")
        past = screen.part("What became of it").get_by_role("listitem")
        expect(
            past.filter(has_text="moved@spark-2 resigned in order, since a person asked it to hand over")
        ).to_be_visible()

        expect(standbys).to_contain_text("moved@spark-4")
        expect(standbys).to_contain_text("moved@spark-5")
        screen.page.get_by_role("button", name="Start…", exact=True).click()
        expect(screen.dialog).to_contain_text("The first of 2 standbys that asks leads at once.")
        screen.dialog.get_by_role("button", name="Start").click()
        expect(screen.dialog).to_contain_text(re.compile(r"moved@spark-[45] leads under epoch 4\."))
        screen.page.keyboard.press("Escape")
        expect(screen.page.get_by_role("button", name="Stop…", exact=True)).to_be_visible()

        # Nobody waits for a real gap: what the service answers is true but for 100 s between the stop and the start.
        def later_since_the_start(route: Route) -> None:
            answer = route.fetch()
            history = answer.json()
            started = next(n for n, each in enumerate(history["entries"]) if each["kind"] == "started")
            for each in history["entries"][: started + 1]:
                each["at"] = (datetime.fromisoformat(each["at"]) + timedelta(seconds=100)).isoformat()
            route.fulfill(response=answer, json=history)

        commit_batch(server, "moved", 6, 4)
        screen.page.route("**/v1/jobs/moved/history?*", later_since_the_start)
        screen.page.reload()
        gap = screen.live().part("What became of it").get_by_role("listitem").filter(has_text="No batch for")
        expect(gap).to_have_text(re.compile(r"No batch for \d+ min: the job was stopped$"))
        expect(gap).to_have_class("episode is-other")
        expect(screen.part("Batches").locator(".bar.gap")).to_have_count(0)
