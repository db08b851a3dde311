"""Watching a store over the real service, and over real fail-overs: nothing is lost, doubled, or out of order."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import milepost
from testbed.ports import Port
from tests.client.conftest import eventually, serving
from tests.client.flavours import connected


def test_each_change_comes_once_and_in_order(client: Any, name: str) -> None:
    with client.session(holder="a") as session:
        store = session.store(name)
        store.campaign(wait=5)
        old = store.add_and_lock("old", b"1")
        with watched(client.store(name)) as seen:
            first = store.add_and_lock("h", b"1")
            second = store.replace("h", first.version, b"2")
            store.release_and_try_remove("h")
            store.files.write("c/commits/0", b"v1")
            store.files.make_savepoint("kept")
            store.clear_entries()
            store.resign()
            eventually(lambda: len(seen) >= 8 and seen[-1].type == "epoch-ended")
    about = [(event.type, event.name, event.version) for event in seen]
    assert about == [
        ("added", "old", old.version),
        ("epoch-granted", None, None),
        ("added", "h", first.version),
        ("replaced", "h", second.version),
        ("removed", "h", second.version),
        ("snapshot-taken", None, None),
        ("savepoint-made", "kept", None),
        ("cleared", None, None),
        ("epoch-ended", None, None),
    ]
    assert [event.id is None for event in seen] == [True, True, *[False] * 7]
    assert [event.revision for event in seen] == sorted(event.revision for event in seen)
    after = list(client.store(name).watch(after=seen[3].id, timeout=2.0))
    assert after == seen[4:]


def test_a_watch_ends_in_time_and_refuses_places_that_are_gone(client: Any, name: str) -> None:
    assert list(client.store(name).watch(timeout=10.0)) == []
    with pytest.raises(milepost.Compacted):
        list(client.store(name).watch(after=10**12, timeout=5.0))


def test_waiting_for_another_version(client: Any, name: str) -> None:
    reader = client.store(name)
    with client.session(holder="a") as session:
        store = session.store(name)
        threading.Timer(0.3, lambda: store.add_and_lock("h", b"1")).start()
        first = reader.wait_for("h", timeout=60.0)
        assert reader.wait_for("h", timeout=60.0) == first
        threading.Timer(0.3, lambda: store.replace("h", first.version, b"2")).start()
        assert reader.wait_for("h", first.version, timeout=60.0).version != first.version
        with pytest.raises(milepost.DeadlineExceeded):
            reader.wait_for("absent", timeout=0.5)


@contextmanager
def watched(store: Any) -> Iterator[list[milepost.StoreEvent]]:
    """What a thread gets that watches a store, from what exists on; the thread ends with the client of the store."""
    seen: list[milepost.StoreEvent] = []

    def read() -> None:
        with suppress(milepost.Closed):
            seen.extend(store.watch(existing=True))

    threading.Thread(target=read, daemon=True).start()
    eventually(lambda: bool(seen))
    yield seen


class Checked:
    """The four guarantees, checked over what a program got from a watch that hides lost histories."""

    def __init__(self, seen: list[milepost.StoreEvent]) -> None:
        self.seen = list(seen)

    def handles(self) -> dict[str, str | None]:
        """What a program knows that believes the events."""
        known: dict[str, str | None] = {}
        for event in self.seen:
            if event.type == "cleared":
                known.clear()
            elif event.type == "removed":
                assert known.pop(event.name or "", None) is not None, event
            elif event.type in ("added", "replaced"):
                assert (event.name in known) == (event.type == "replaced"), event
                known[event.name or ""] = event.version
        return known

    def check(self, now: dict[str, str], acknowledged: list[str]) -> None:
        """Complete up to ``now``; each event is new and in order; where no history was lost, no version is missing."""
        assert self.handles() == now
        places = [event.id for event in self.seen if event.id is not None]
        assert len(set(places)) == len(places)
        revisions = [event.revision for event in self.seen if event.id is not None]
        assert revisions == sorted(revisions)
        versions = [event.version for event in self.seen if event.type in ("added", "replaced")]
        assert len(set(versions)) == len(versions)
        made = [index for index, event in enumerate(self.seen) if event.id is None]
        if not made or max(made) < 1:
            assert [each for each in acknowledged if each not in versions] == []


def play(directory: Path, flavour: str, name: str, rounds: int, seed: int) -> None:
    """Write at random while leaders are killed and stopped; then compare what was watched with what is there."""
    chance = random.Random(seed)
    with ExitStack() as opened:
        ports = [Port() for _ in range(2)]
        servers = [opened.enter_context(serving(directory, port=ports[0]))]
        servers.append(opened.enter_context(serving(directory, port=ports[1], ready="/livez")))
        urls = [server.url for server in servers]
        client = opened.enter_context(connected(flavour, urls, timeout=90.0))
        session = opened.enter_context(client.session(holder="a", ttl=600))
        store, acknowledged, known = session.store(name), list[str](), dict[str, str]()

        def write() -> None:
            which = chance.choice("abcd")
            if which not in known:
                known[which] = store.add_and_lock(which, b"1").version
            elif chance.random() < 0.7:
                known[which] = store.replace(which, known[which], b"2").version
            else:
                store.release_and_try_remove(which)
                del known[which]
                return
            acknowledged.append(known[which])

        write()
        with watched(client.store(name)) as seen:
            for _ in range(rounds):
                for _ in range(8):
                    write()
                leading = client.status().leader
                index = urls.index(leading)
                if chance.random() < 0.5:
                    servers[index].process.kill()
                else:
                    servers[index].process.terminate()
                servers[index].process.wait(60)
                for _ in range(4):
                    write()
                servers[index] = opened.enter_context(serving(directory, port=ports[index], ready="/livez"))
            write()
            end = store.add_and_lock("end", b"end")
            known["end"] = end.version
            acknowledged.append(end.version)
            eventually(lambda: any(event.version == end.version for event in seen))
            Checked(seen).check(known, acknowledged)


@pytest.mark.later
def test_a_watch_over_fail_overs_is_complete_and_in_order(tmp_path: Path, flavour: str, name: str) -> None:
    play(tmp_path, flavour, name, rounds=2, seed=7)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2))
def test_a_watch_over_many_fail_overs(tmp_path: Path, flavour: str, name: str, seed: int) -> None:
    play(tmp_path, flavour, name, rounds=8, seed=seed)
