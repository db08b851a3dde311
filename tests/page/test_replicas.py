"""The page on a set of replicas, and through a fail-over while it is open."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import expect

import milepost
from tests.page.screen import Screen
from tests.wire.webhdfs.replicas import Set


def test_a_follower_leads_to_the_leader_and_a_lost_leader_to_the_others(screen: Screen, tmp_path: Path) -> None:
    with ExitStack() as running:
        replicas = Set(tmp_path / "set", running)
        leader, followers = replicas.leader(), replicas.followers()
        with milepost.Client([leader.url]) as client, client.session() as session:
            session.store("kept").add_and_lock("a", b"")

        screen.open(f"{followers[0].url}/#/stores")
        expect(screen.notice("This replica does not lead")).to_contain_text(leader.url)
        assert not any("/v1/stores" in each for each in screen.asked), "only the leader is asked for what it knows"
        screen.page.get_by_role("link", name=leader.url).click()
        expect(screen.live().row("kept")).to_be_visible()
        assert screen.page.url.startswith(f"{leader.url}/#/stores")

        screen.page.get_by_role("link", name="Replicas").click()
        for follower in followers:
            expect(screen.later(31).row(follower.url)).to_contain_text("follower")
        leader.kill()
        expect(screen.later().freshness).to_have_text("The service cannot be reached")
        links = screen.notice("Other replicas").get_by_role("link")
        expect(links).to_have_text([follower.url for follower in sorted(followers, key=lambda each: each.url)])
        links.first.click()
        screen.live()
        successor = replicas.leader()
        expect(screen.later().row("Leader")).to_contain_text(successor.url)
        screen.page.goto(f"{successor.url}/#/stores")
        expect(screen.live().row("kept")).to_be_visible()
