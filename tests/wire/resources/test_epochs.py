"""``/v1/stores/{store}/epoch``: who leads a job, and the fence around its writes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from testbed.server import ALL_AS_BLOBS, DEADLINE_SECONDS, ServerProcess
from tests.wire.resources.test_record import RFC_3339_UTC
from tests.wire.support import raw
from tests.wire.support.api import Api, connect, open_session, problem
from tests.wire.support.in_process import in_process


def test_never_had_one(api: Api) -> None:
    response = api.current()
    assert response.status_code == 200
    assert response.json() == {"epoch": 0, "session": None, "holder": None, "since": None, "wish": None}


def test_granted_and_shown_to_everybody(api: Api) -> None:
    response = api.campaign(wait=0)
    assert response.status_code == 200
    granted = response.json()
    assert granted == {"epoch": 1, "session": api.session, "holder": "test", "since": granted["since"]}
    assert RFC_3339_UTC.fullmatch(granted["since"])
    assert replace(api, session=None).current().json() == {**granted, "wish": None}


def test_the_holder_gets_the_same_answer_again(api: Api) -> None:
    assert api.campaign().json() == api.campaign().json() == api.campaign(wait=60).json()


def test_no_body_is_no_wait(api: Api) -> None:
    assert api.call("POST", "/epoch").json()["epoch"] == 1


def test_held_by_another(api: Api) -> None:
    epoch = api.granted()
    other = api.other("second-driver")
    before = api.everything()
    document = problem(other.campaign(), 409, "held")
    assert (document["holder"], document["epoch"]) == ("test", epoch)
    assert api.everything() == before


def test_held_until_the_wait_runs_out(api: Api) -> None:
    epoch = api.granted()
    other = api.other()
    began = time.monotonic()
    document = problem(other.campaign(wait=0.4), 409, "held")
    assert time.monotonic() - began >= 0.4
    assert document["epoch"] == epoch


ENDINGS: dict[str, Callable[[Api], httpx.Response]] = {
    "resigned": lambda holder: holder.resign(),
    "session ended": lambda holder: holder.http.delete(f"/v1/sessions/{holder.session}"),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_campaign_that_waits_is_granted_when_the_holder_goes(
    api: Api, ending: Callable[[Api], httpx.Response]
) -> None:
    epoch = api.granted()
    other = api.other("next")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(other.campaign, wait=60)
        assert not wait([waiting], timeout=0.2).done
        assert ending(api).status_code == 204
        granted = waiting.result(DEADLINE_SECONDS)
    assert granted.status_code == 200
    assert granted.json()["epoch"] == epoch + 1
    assert granted.json()["session"] == other.session


def test_a_campaign_that_waits_is_granted_when_the_holder_expires(tmp_path: Path) -> None:
    """The clock is moved on instead of waiting."""
    with in_process(tmp_path) as here, ThreadPoolExecutor(1) as threads:
        epoch = Api(here.http, "s", open_session(here.http, 30)).granted()
        other = Api.on(here.http, "s")
        waiting = threads.submit(other.campaign, wait=60)
        assert not wait([waiting], timeout=0.2).done
        here.rig.clock.advance(31)
        granted = waiting.result(DEADLINE_SECONDS)
        assert granted.json()["epoch"] == epoch + 1
        assert granted.json()["session"] == other.session


def test_a_campaign_whose_own_session_ends_meanwhile_ends(api: Api) -> None:
    api.granted()
    other = api.other()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(other.campaign, wait=60)
        assert not wait([waiting], timeout=0.2).done
        assert api.http.delete(f"/v1/sessions/{other.session}").status_code == 204
        problem(waiting.result(DEADLINE_SECONDS), 410, "session-expired")


def test_resigned_the_number_stays_current_until_the_next(api: Api) -> None:
    epoch = api.granted()
    response = api.resign()
    assert response.status_code == 204
    assert response.content == b""
    nobody = {"session": None, "holder": None, "since": None, "wish": None}
    assert api.current().json() == {"epoch": epoch, **nobody}
    assert api.under(epoch).add("a").status_code == 201
    assert problem(api.add("b"), 409, "fenced")["current"] == epoch
    assert api.resign().status_code == 204
    assert api.granted() == epoch + 1


def test_resigning_what_never_was(api: Api) -> None:
    before = api.everything()
    response = api.resign()
    assert (response.status_code, response.content) == (204, b"")
    assert api.everything() == before
    assert api.add("a").status_code == 201


def test_resigning_what_another_holds_is_fenced(api: Api) -> None:
    epoch = api.granted()
    other = api.other()
    before = api.everything()
    assert problem(other.resign(), 409, "fenced")["current"] == epoch
    assert api.everything() == before


Write = Callable[[Api, str], httpx.Response]
FENCED: dict[str, Write] = {
    "add": lambda api, _: api.add("new"),
    "replace": lambda api, version: api.replace("a", version),
    "remove": lambda api, _: api.remove("a"),
    "clear": lambda api, _: api.clear(),
}
FORMS: dict[str, Callable[[int], int | None]] = {
    "none": lambda _: None,
    "older": lambda current: current - 1,
    "never granted": lambda current: current + 1,
    "far away": lambda _: 10**17,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("write", FENCED.values(), ids=FENCED)
def test_writes_carry_the_current_epoch(api: Api, write: Write, form: Callable[[int], int | None]) -> None:
    api.granted()
    api.resign()
    current = api.granted()
    writer = api.under(current)
    version = writer.added("a")["version"]
    before = api.everything()
    assert problem(write(api.under(form(current)), version), 409, "fenced")["current"] == current
    assert api.everything() == before
    assert write(writer, version).status_code in (200, 201)


def test_a_fenced_write_leaves_the_revision_as_it_was(tmp_path: Path) -> None:
    """On a server of its own, where nobody else moves it."""
    with ServerProcess(tmp_path, *ALL_AS_BLOBS) as server, connect(server.start().url) as http:
        api = Api.on(http, "alone")
        api.granted()
        api.resign()
        current = api.granted()
        version = api.under(current).added("a")["version"]
        before = api.revision()
        for write in FENCED.values():
            for form in FORMS.values():
                problem(write(api.under(form(current)), version), 409, "fenced")
        assert api.revision() == before


def test_a_write_under_an_epoch_that_the_store_never_had_is_fenced(api: Api) -> None:
    assert problem(api.under(7).add("a"), 409, "fenced")["current"] == 0
    assert api.exists("a").status_code == 404


def test_locking_releasing_and_reading_need_none(api: Api) -> None:
    api.under(api.granted()).added("a")
    executor = api.other()
    assert executor.lock("a").status_code == 200
    assert executor.release("a").status_code == 204
    assert executor.lock_all().status_code == 200
    assert executor.release_all().status_code == 204
    assert [executor.exists("a").status_code, executor.get("a").status_code] == [200, 200]
    assert [executor.state("a").status_code, executor.handles().status_code] == [200, 200]


def test_any_session_may_act_under_the_epoch(api: Api) -> None:
    epoch = api.granted()
    executor = api.other("executor").under(epoch)
    record = executor.added("a")
    assert (record["epoch"], record["locks"]) == (epoch, [executor.session])
    assert executor.replace("a", record["version"]).json()["epoch"] == epoch
    assert executor.remove("a").json() == {"removed": True}


def test_a_deposed_driver_is_fenced_by_its_successor(api: Api) -> None:
    old = api.under(api.granted())
    version = old.added("a", b"old")["version"]
    api.resign()
    successor = api.other("successor")
    new = successor.under(successor.granted())
    assert problem(old.replace("a", version, b"late"), 409, "fenced")["current"] == new.epoch
    assert new.state("a").content == b"old"
    new.lock("a")
    assert new.replace("a", version, b"new").json()["epoch"] == new.epoch


def test_epochs_of_stores_are_apart(api: Api) -> None:
    api.granted()
    elsewhere = replace(api, store=f"{api.store}-2")
    assert elsewhere.add("a").status_code == 201
    assert elsewhere.current().json()["epoch"] == 0


def _polling(api: Api, wait: float) -> socket.socket:
    """A connection on which a campaign waits."""
    body = json.dumps({"wait": wait}).encode()
    fields = {"Milepost-Session": str(api.session), "Content-Type": "application/json"}
    head = raw.head("POST", f"/v1/stores/{api.store}/epoch", {**fields, "Content-Length": str(len(body))})
    address = api.http.base_url
    connection = socket.create_connection((address.host, address.port or 80), DEADLINE_SECONDS)
    connection.sendall(head + body)
    return connection


def test_who_has_hung_up_is_not_granted_what_he_waited_for(api: Api) -> None:
    """Nobody would lead until his session ends. Whoever waits behind him is granted it."""
    epoch = api.granted()
    left, staying = api.other("left"), api.other("staying")
    with ThreadPoolExecutor(max_workers=1) as pool:
        connection = _polling(left, wait=60)
        time.sleep(0.5)
        poll = pool.submit(staying.campaign, wait=30)
        time.sleep(0.5)
        connection.close()
        time.sleep(0.5)
        assert api.resign().status_code == 204
        granted = poll.result(DEADLINE_SECONDS).json()
    assert (granted["epoch"], granted["holder"]) == (epoch + 1, "staying")


def test_who_waits_and_closes_his_sending_side_is_answered_at_once(api: Api) -> None:
    epoch = api.granted()
    with closing(_polling(api.other(), wait=60)) as connection:
        time.sleep(0.3)
        connection.shutdown(socket.SHUT_WR)
        document = problem(raw.answer(connection, "POST"), 409, "held")
    assert document["epoch"] == epoch
