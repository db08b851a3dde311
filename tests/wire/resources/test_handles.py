"""Each row of the table of handles, but for the bytes (`test_states`) and the listing (`test_listing`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, problem
from tests.wire.support.damage import blob_file, unreachable

# -- POST /{name} ------------------------------------------------------------------------------------------------------


def test_add_answers_201_and_locks_for_the_session(api: Api) -> None:
    response = api.add("a", b"bytes")
    assert response.status_code == 201
    assert response.headers["content-type"] == "application/json"
    assert response.json()["locks"] == [api.session]
    assert api.state("a").content == b"bytes"


def test_add_of_what_exists_is_409_whoever_asks(api: Api) -> None:
    api.added("a", b"first")
    other = api.other()
    before = api.everything()
    problem(api.add("a", b"second"), 409, "already-exists")
    problem(other.add("a", b"first"), 409, "already-exists")
    assert api.everything() == before
    assert api.state("a").content == b"first"


def test_add_takes_any_media_type_as_bytes(api: Api) -> None:
    for number, media_type in enumerate(["application/octet-stream", "application/json", "text/plain", "nonsense"]):
        assert api.add(f"a{number}", b"{}", Content_Type=media_type).status_code == 201
        assert api.state(f"a{number}").headers["content-type"] == "application/octet-stream"


def test_add_streams_a_body_of_unknown_length(api: Api) -> None:
    assert api.add("a", iter([b"one ", b"two ", b"three"])).json()["size"] == 13
    assert api.state("a").content == b"one two three"


def test_a_name_may_be_added_again_with_a_new_version(api: Api) -> None:
    first = api.added("a", b"same")
    api.remove("a")
    again = api.added("a", b"same")
    assert again["version"] != first["version"]
    assert again["created"] >= first["created"]


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "-", "_", "0", "a..b", "n" * 200])
def test_names_that_are_allowed(api: Api, name: str) -> None:
    assert api.added(name)["name"] == name
    assert api.exists(name).status_code == 200


def test_a_percent_encoded_name_is_decoded_once(api: Api) -> None:
    assert api.added("%61%2D1")["name"] == "a-1"
    assert api.get("a-1").status_code == 200
    problem(api.add("%2561"), 422, "invalid-name")


# -- PUT /{name} -------------------------------------------------------------------------------------------------------


def test_replace_answers_200_with_a_new_version(api: Api) -> None:
    version = api.added("a", b"old")["version"]
    response = api.replace("a", version, b"new")
    assert response.status_code == 200
    assert response.json()["version"] != version
    assert api.state("a").content == b"new"


def test_replace_of_what_is_not_there_is_404(api: Api) -> None:
    problem(api.replace("absent", "v"), 404, "not-exist")


def test_replace_at_another_version_is_412_with_the_current(api: Api) -> None:
    old = api.added("a")["version"]
    current = api.replace("a", old).json()["version"]
    assert problem(api.replace("a", old), 412, "version-mismatch")["current"] == current


def test_replace_without_if_match_is_428(api: Api) -> None:
    api.added("a")
    problem(api.call("PUT", "/handles/a", content=b"x"), 428, "precondition-required")


def test_replace_without_a_lock_is_409(api: Api) -> None:
    version = api.added("a", b"old")["version"]
    other = api.other()
    before = api.everything()
    problem(other.replace("a", version), 409, "not-locked")
    assert api.everything() == before
    other.lock("a")
    assert other.replace("a", version).status_code == 200
    current = other.get("a").json()["version"]
    api.release("a")
    problem(api.replace("a", current), 409, "not-locked")


# -- HEAD and GET /{name} ----------------------------------------------------------------------------------------------


def test_head_answers_200_without_a_body_or_404(api: Api) -> None:
    api.added("a")
    there, absent = api.exists("a"), api.exists("absent")
    assert (there.status_code, absent.status_code) == (200, 404)
    assert there.content == absent.content == b""
    assert "etag" not in absent.headers


def test_get_takes_no_lock(api: Api) -> None:
    record = api.added("a")
    other = api.other()
    assert other.get("a").json() == record
    assert other.get("a").json()["locks"] == [api.session]
    problem(other.get("absent"), 404, "not-exist")


# -- POST and DELETE /{name}/lock --------------------------------------------------------------------------------------


def test_lock_answers_the_record_with_the_lock_in_it(api: Api) -> None:
    api.added("a")
    other = api.other()
    response = other.lock("a")
    assert response.status_code == 200
    assert response.json()["locks"] == sorted([str(api.session), str(other.session)])
    assert other.lock("a").json() == response.json()


def test_lock_of_what_is_not_there_is_404_and_leaves_nothing(api: Api) -> None:
    before = api.everything()
    problem(api.lock("absent"), 404, "not-exist")
    assert api.everything() == before


def test_release_answers_204_also_when_none_was_held(api: Api) -> None:
    api.added("a")
    other = api.other()
    for response in (api.release("a"), api.release("a"), other.release("a"), api.release("absent")):
        assert response.status_code == 204
        assert response.content == b""
    assert api.get("a").json()["locks"] == []


def test_locks_are_held_once_however_often_they_are_taken(api: Api) -> None:
    api.added("a")
    api.lock("a")
    api.lock("a")
    api.release("a")
    assert api.get("a").json()["locks"] == []


# -- DELETE /{name} ----------------------------------------------------------------------------------------------------


def test_remove_answers_removed_also_when_absent(api: Api, server: ServerProcess) -> None:
    api.added("a")
    blob = blob_file(server, api.store, "a")
    assert blob.exists()
    for _ in range(2):
        response = api.remove("a")
        assert response.status_code == 200
        assert response.json() == {"removed": True}
    problem(api.get("a"), 404, "not-exist")
    problem(api.state("a"), 404, "not-exist")
    problem(api.lock("a"), 404, "not-exist")
    assert not blob.exists()


def test_remove_while_others_hold_it_gives_up_ones_own_lock(api: Api) -> None:
    api.added("a", b"kept")
    one, two = api.other(), api.other()
    one.lock("a")
    two.lock("a")
    response = api.remove("a")
    assert response.status_code == 200
    assert response.json() == {"removed": False, "locks": sorted([str(one.session), str(two.session)])}
    assert api.get("a").json()["locks"] == response.json()["locks"]
    assert api.state("a").content == b"kept"
    one.release("a")
    assert two.remove("a").json() == {"removed": True}


def test_remove_needs_no_lock_of_ones_own(api: Api) -> None:
    api.added("a")
    api.release("a")
    assert api.other().remove("a").json() == {"removed": True}


# -- DELETE "" ---------------------------------------------------------------------------------------------------------


def test_clear_removes_pointers_whoever_holds_them_and_leaves_blobs(api: Api, server: ServerProcess) -> None:
    for name in "abc":
        api.added(name)
    blobs = [blob_file(server, api.store, name) for name in "abc"]
    response = api.other().clear()
    assert response.status_code == 200
    assert response.json() == {"cleared": 3}
    assert api.handles().json()["handles"] == []
    problem(api.get("a"), 404, "not-exist")
    problem(api.replace("a", "v"), 404, "not-exist")
    assert all(blob.exists() for blob in blobs)
    assert api.clear().json() == {"cleared": 0}
    assert api.added("a")["locks"] == [api.session]


# -- POST and DELETE …/locks -------------------------------------------------------------------------------------------


def test_lock_all_answers_every_record_locked_and_by_name(api: Api) -> None:
    for name in ("b", "a10", "a9", "B"):
        api.added(name)
    other = api.other()
    response = other.lock_all()
    assert response.status_code == 200
    assert [record["name"] for record in response.json()["handles"]] == ["B", "a10", "a9", "b"]
    assert all(other.session in record["locks"] for record in response.json()["handles"])
    assert response.json()["corrupt"] == []
    assert api.remove("a9").json() == {"removed": False, "locks": [other.session]}


def test_lock_all_of_an_empty_store(api: Api) -> None:
    assert api.lock_all().json() == {"handles": [], "corrupt": []}


def test_lock_all_locks_what_is_there_and_not_what_comes(api: Api) -> None:
    other = api.other()
    other.lock_all()
    assert api.added("a")["locks"] == [api.session]


def test_release_all_releases_every_lock_of_the_session_in_this_store_alone(api: Api) -> None:
    elsewhere = replace(api, store=f"{api.store}-2")
    other = api.other()
    for name in "ab":
        api.added(name)
    other.lock_all()
    elsewhere.added("a")
    response = api.release_all()
    assert response.status_code == 204
    assert response.content == b""
    assert [record["locks"] for record in api.handles().json()["handles"]] == [[other.session]] * 2
    assert elsewhere.get("a").json()["locks"] == [api.session]
    assert api.release_all().status_code == 204


# -- entries whose removal has begun -----------------------------------------------------------------------------------


def test_a_removal_whose_blob_cannot_be_discarded_stands_and_is_finished_later(api: Api, server: ServerProcess) -> None:
    api.added("a", b"old")
    blob = blob_file(server, api.store, "a")
    with unreachable(blob.parent):
        for _ in range(2):
            document = problem(api.remove("a"), 503, "discard-failed", outcome="applied")
            assert document["retryable"] is True
        (listed,) = api.handles().json()["handles"]
        assert (listed["name"], listed["removing"]) == ("a", True)
        for response in (api.get("a"), api.lock("a"), api.state("a")):
            problem(response, 404, "not-exist")
        assert api.exists("a").status_code == 404
        assert api.release("a").status_code == 204
        assert api.lock_all().json()["handles"] == []
    problem(api.replace("a", listed["version"]), 404, "not-exist")
    assert api.remove("a").json() == {"removed": True}
    assert api.handles().json()["handles"] == []
    assert not blob.exists()


def test_adding_finishes_a_removal_that_has_begun(api: Api, server: ServerProcess) -> None:
    first = api.added("a", b"old")
    blob = blob_file(server, api.store, "a")
    with unreachable(blob.parent):
        problem(api.remove("a"), 503, "discard-failed", outcome="applied")
        problem(api.add("a", b"new"), 503, "storage-unavailable")
    again = api.added("a", b"new")
    assert again["version"] != first["version"]
    assert api.state("a").content == b"new"
    assert not blob.exists()
