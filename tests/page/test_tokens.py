"""The page of a service with tokens."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

import milepost
from testbed.server import ServerProcess
from tests.page.screen import Screen

READER = "r" * 20
DRIVER = "d" * 20


def test_the_page_asks_for_a_token_and_keeps_it_in_its_tab(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"reader {READER} read-only\ndriver {DRIVER} writer=flights\n")
    with ServerProcess(tmp_path, "--token-file", str(tmp_path / "tokens")) as server:
        page = screen.page
        page.goto(f"{server.start().url}/#/replicas")
        given = page.get_by_label("Token")
        expect(page.get_by_text("This service wants a token.")).to_be_visible()
        assert screen.barriers() == []
        given.fill("ä" * 20)
        page.keyboard.press("Enter")
        assert "ASCII" in given.evaluate("input => input.validationMessage")
        given.fill("w" * 20)
        page.keyboard.press("Enter")
        expect(page.get_by_text("The service does not know this token.")).to_be_visible()
        given.fill(READER)
        page.get_by_role("button", name="Use it").click()
        expect(screen.live().row("Role")).to_contain_text("leader")
        expect(given).to_have_count(0)
        assert page.evaluate("JSON.stringify([sessionStorage, document.cookie])").count(READER) == 1
        kept = "JSON.stringify(localStorage) + document.cookie + location + document.body.innerHTML + document.title"
        assert READER not in page.evaluate(kept)
        assert not any(READER in each for each in screen.asked)
        page.reload()
        expect(screen.live().row("Role")).to_contain_text("leader")

        with milepost.Client(server.url, token=DRIVER) as client, client.session() as session:
            store = session.store("flights")
            store.campaign()
            page.goto(f"{server.url}/#/jobs/flights")
            expect(screen.live().part("Who leads")).to_contain_text("epoch 1")
            expect(page.get_by_role("button", name="End its session")).to_have_count(0)
            store.files.write("checkpoint/commits/0", b"v1")
            screen.later().part("Where a restore leads").get_by_role("button", name="Restore").click()
            command = f"milepost -u {server.url} jobs restore flights @"
            expect(screen.dialog.locator("code").last).to_contain_text(command)
            screen.page.keyboard.press("Escape")
        page.goto(f"{server.url}/#/replicas")

        other = page.context.new_page()
        other.goto(server.url)
        expect(other.get_by_label("Token")).to_be_visible()
        other.close()

        page.get_by_role("button", name="Forget the token").click()
        expect(given).to_be_visible()
        expect(screen.row("Role")).to_have_count(0)
        assert page.evaluate("sessionStorage.length") == 0
        assert READER not in server.logged()
