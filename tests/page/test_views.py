"""What the page shows of one server, live, to people with a mouse, a keyboard, or a screen reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

import milepost
from testbed.server import ServerProcess
from tests.page.files import commit_batch
from tests.page.screen import Screen
from tests.wire.support.damage import damage_record

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def client(server: ServerProcess) -> Iterator[milepost.Client]:
    with milepost.Client(server.url) as made:
        yield made


def test_who_leads_and_whether_all_is_well(screen: Screen, server: ServerProcess) -> None:
    screen.open(f"{server.url}/#/replicas")
    expect(screen.heading).to_have_text("Replicas")
    expect(screen.row("Role")).to_contain_text("leader")
    expect(screen.row("Leader")).to_contain_text(f"{server.url} (this one)")
    expect(screen.row("Leads since")).to_contain_text(re.compile(r"\(\d+ (s|min)\)"))
    expect(screen.row("Lease")).to_contain_text("as long as this process runs")
    expect(screen.row(server.url)).to_contain_text("leader")
    for part in ("leadership", "records", "pointers", "blobs"):
        expect(screen.row(part).get_by_role("cell").first).to_have_text("well")


def test_what_changes_comes_by_itself_and_takes_no_focus_away(
    screen: Screen, server: ServerProcess, client: milepost.Client
) -> None:
    with client.session(holder="driver-1") as session:
        store = session.store("live")
        store.campaign()
        store.add_and_lock("b", b"state", labels={"batch": "7"})
        screen.open(f"{server.url}/#/stores")
        row = screen.row("live")
        expect(row).to_contain_text("driver-1")
        row.get_by_role("link").focus()
        client_of_another = session.store("aaa-comes-before")
        client_of_another.add_and_lock("a", b"")
        expect(screen.later().row("aaa-comes-before")).to_be_visible()
        assert screen.focused() == "live"
        screen.page.keyboard.press("Enter")
        expect(screen.heading).to_have_text("Store live")
        expect(screen.row("Led by")).to_contain_text(f"driver-1 (session {session.id})")
        expect(screen.row("b")).to_contain_text("batch=7")
        expect(screen.row("b")).to_contain_text("5 bytes")
        expect(screen.row("b")).to_contain_text(session.id)
        store.replace("b", store.get("b").version, b"x" * 2048)
        expect(screen.later().row("b")).to_contain_text("2.0 KiB")
        store.release_and_try_remove("b")
        expect(screen.later().row("b")).to_have_count(0)
        screen.page.goto(f"{server.url}/#/sessions")
        expect(screen.row(session.id)).to_contain_text("live (1)")
    expect(screen.later().row(session.id)).to_have_count(0)


def test_what_strangers_wrote_stays_text(screen: Screen, server: ServerProcess, client: milepost.Client) -> None:
    with client.session(holder=HOSTILE) as session:
        store = session.store("hostile")
        store.campaign()
        store.add_and_lock("a", b"", labels={"note": HOSTILE})
        for view, places in (("", 1), ("jobs/hostile", 4), ("stores", 1), ("stores/hostile", 2), ("sessions", 1)):
            screen.open(f"{server.url}/#/{view}")
            screen.page.reload()
            expect(screen.live().page.locator("main").get_by_text(HOSTILE)).to_have_count(places)
        screen.open(f"{server.url}/#/stores/{quote(HOSTILE, safe='')}")
        expect(screen.heading).to_have_text(f"Store {HOSTILE}")
        expect(screen.page.locator(".notice")).to_contain_text("is not allowed")
        assert screen.page.locator("img, iframe, object").count() == 0


def test_pages_of_handles_and_of_sessions(screen: Screen, server: ServerProcess, client: milepost.Client) -> None:
    with client.session() as session:
        store = session.store("paged")
        for number in range(101):
            store.add_and_lock(f"h{number:03}", b"")
        screen.open(f"{server.url}/#/stores/paged")
        handles = screen.page.get_by_role("table", name="Handles by name").locator("tbody tr")
        expect(handles).to_have_count(50)
        more = screen.page.get_by_role("link", name="Next page")
        more.click()
        expect(handles.first).to_contain_text("h050")
        more.click()
        expect(handles).to_have_count(1)
        expect(more).to_have_count(0)
        expect(screen.later().live().row("h100")).to_be_visible()
        screen.page.go_back()
        expect(handles.first).to_contain_text("h050")
        screen.page.get_by_role("link", name="First page").click()
        expect(handles.first).to_contain_text("h000")
    listed = [each for each in screen.asked if "/handles?" in each]
    assert {each.partition("limit=")[2].partition("&")[0] for each in listed} == {"50"}


def test_how_often_the_page_asks(screen: Screen, server: ServerProcess) -> None:
    """In five seconds one request for the status, and one or four for what is shown; none while the tab is hidden."""
    for view, most in (("", 2), ("replicas", 1), ("stores", 2), ("sessions", 2), ("stores/absent", 5)):
        screen.open(f"{server.url}/#/{view}").page.reload()
        screen.live()
        screen.asked.clear()
        screen.later(5.1).asks(most)
        screen.page.wait_for_load_state("networkidle")
        assert len(screen.asked) == most, (view, screen.asked)
    screen.hide(True)
    screen.asked.clear()
    screen.later(600)
    assert screen.asked == []
    with screen.page.expect_response("**/v1/status"):
        screen.hide(False)
    screen.live()


def test_a_keyboard_is_enough(screen: Screen, server: ServerProcess, client: milepost.Client) -> None:
    with client.session() as session:
        session.store("keyed").add_and_lock("a", b"")
        screen.open(f"{server.url}/")
        press = screen.page.keyboard.press
        met = []
        for _ in range(8):
            press("Tab")
            met.append(screen.focused())
        assert met == ["Skip to the content", "Milepost", "Jobs", "Stores", "Sessions", "Replicas", "API", "Dark"]
        screen.page.get_by_role("link", name="Stores").focus()
        press("Enter")
        expect(screen.live().heading).to_be_focused()
        expect(screen.row("keyed")).to_be_visible()
        while screen.focused() != "keyed":
            press("Tab")
        press("Enter")
        expect(screen.live().heading).to_have_text("Store keyed")
        screen.page.go_back()
        expect(screen.live().row("keyed")).to_be_visible()
        name = screen.page.get_by_label("Name of a store")
        while screen.focused() != "Name of a store":
            press("Tab")
        screen.page.keyboard.type("keyed")
        screen.later().live()
        expect(name).to_have_value("keyed")
        press("Enter")
        expect(screen.heading).to_have_text("Store keyed")


def test_light_and_dark(screen: Screen, server: ServerProcess) -> None:
    screen.page.emulate_media(color_scheme="light")
    light = screen.open(server.url).ground()
    screen.page.emulate_media(color_scheme="dark")
    dark = screen.ground()
    assert light != dark
    switch = screen.page.get_by_role("button", name="Switch to light colours")
    switch.click()
    assert screen.ground() == light
    screen.page.reload()
    assert screen.live().ground() == light
    screen.page.get_by_role("button", name="Switch to dark colours").click()
    screen.page.emulate_media(color_scheme="light")
    assert screen.ground() == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_stands_in_anybodys_way(
    screen: Screen, server: ServerProcess, client: milepost.Client, scheme: str
) -> None:
    screen.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    with client.session(holder="somebody") as session:
        store = session.store(f"reached-{scheme}")
        store.campaign()
        store.add_and_lock("job", b"{}", labels={"published": "1", "epoch": "1"})
        for batch in (0, 1):
            commit_batch(server, f"reached-{scheme}", batch)
        store.files.make_savepoint("kept")
        for view in (
            "",
            f"jobs/reached-{scheme}",
            "stores",
            f"stores/reached-{scheme}",
            "sessions",
            "replicas",
            "jobs/not%20a%20name",
        ):
            screen.open(f"{server.url}/#/{view}").page.reload()
            assert screen.live().barriers() == []


def test_damage_is_shown_and_hides_nothing(screen: Screen, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        with milepost.Client(server.start().url) as client, client.session() as session:
            for name in ("good", "broken"):
                session.store("hurt").add_and_lock(name, b"state")
        server.stop()
        damage_record(server, "stores/hurt/handles/broken", b"nonsense")
        server.start()
        screen.open(f"{server.url}/#/replicas")
        expect(screen.notice("1 are damaged").first).to_contain_text("stores/hurt/handles/broken")
        screen.page.get_by_role("link", name="Stores").click()
        expect(screen.row("hurt").get_by_role("cell").last).to_have_text("1")
        screen.row("hurt").get_by_role("link").click()
        expect(screen.notice("The record of handle broken is damaged")).to_be_visible()
        expect(screen.row("good")).to_be_visible()


def test_what_is_stale_says_so(screen: Screen, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        screen.open(f"{server.start().url}/#/sessions")
        server.stop()
        expect(screen.later().freshness).to_have_text("The service cannot be reached")
        expect(screen.page.locator("#age")).to_contain_text("no connection; shown as of")
        assert screen.barriers() == []
        screen.asked.clear()
        for _ in range(12):
            screen.later(5).page.wait_for_timeout(100)
        assert 1 <= len(screen.asked) <= 5, "in a minute it asks after 5, 15 and 35 seconds, more or less"
        server.start()
        screen.later(70).live()
        expect(screen.page.locator("#age")).not_to_contain_text("no connection")
