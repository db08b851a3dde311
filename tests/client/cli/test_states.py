"""``milepost put``, ``get`` and ``rm`` over the real service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import milepost
from milepost.cli.states import copied
from tests.client.cli.conftest import STATE, Run, Said
from tests.support.network.gateway import Fault, Gateway, Request
from tests.support.terminal import INTERRUPT, terminal


def test_a_state_is_put_from_a_file_and_from_standard_input(
    said: Said, blocking: milepost.Client, name: str, tmp_path: Path
) -> None:
    source = tmp_path / "state"
    source.write_bytes(STATE)
    added = json.loads(said("put", name, "latest", str(source), "--label", "batch=7", "--label", "x=a=b", "--json"))
    assert (added["size"], added["labels"], added["locks"]) == (7, {"batch": "7", "x": "a=b"}, [])
    assert blocking.store(name).read("latest", added["version"]) == STATE
    replaced = json.loads(said("put", name, "latest", "--json", stdin=b"another"))
    assert (replaced["labels"], replaced["locks"]) == (added["labels"], [])
    assert blocking.store(name).read("latest", replaced["version"]) == b"another"
    assert blocking.store(name).get("latest").locks == ()


def test_a_put_may_be_for_one_version_or_for_none(run: Run, said: Said, blocking: milepost.Client, name: str) -> None:
    missing = run("put", name, "latest", "--version", "1", stdin=b"a")
    assert (missing.returncode, missing.stderr.split(b":")[0]) == (1, b"NotExist")
    first = json.loads(said("put", name, "latest", "--new", "--json", stdin=b"a"))["version"]
    there = run("put", name, "latest", "--new", stdin=b"b")
    assert (there.returncode, there.stderr.split(b":")[0]) == (1, b"AlreadyExists")
    said("put", name, "latest", "--version", first, stdin=b"c")
    stale = run("put", name, "latest", "--version", first, stdin=b"d")
    assert (stale.returncode, stale.stderr.split(b":")[0]) == (1, b"VersionMismatch")
    assert run("put", name, "latest", "--version", first, "--new", stdin=b"e").returncode == 2
    assert blocking.store(name).read("latest") == b"c"


@pytest.mark.parametrize("arguments", [["no-such-file"], ["."], ["--label", "batch"], ["--epoch", "0"]])
def test_a_put_that_cannot_be_meant_is_an_error_of_usage(run: Run, name: str, arguments: list[str]) -> None:
    ended = run("put", name, "latest", *arguments)
    assert (ended.returncode, ended.stdout) == (2, b"")


@pytest.mark.usefixtures("session")
def test_a_state_is_written_to_a_file_or_through(run: Run, said: Said, name: str, tmp_path: Path) -> None:
    out = tmp_path / "state"
    assert said("get", name, "latest", str(out)) == f"7 bytes are in {out}\n"
    assert out.read_bytes() == STATE
    assert list(tmp_path.iterdir()) == [out]
    for target in ([], ["-"]):
        assert run("get", name, "latest", *target).stdout == STATE
    assert json.loads(said("get", name, "latest", str(out), "--json")) == {"file": str(out), "bytes": 7}
    wrong = run("get", name, "latest", str(out), "--version", "0.0")
    assert (wrong.returncode, wrong.stderr.split(b":")[0]) == (1, b"VersionMismatch")
    assert run("get", name, "latest", str(tmp_path / "no" / "state")).returncode == 2


@pytest.mark.usefixtures("session")
def test_a_state_that_ends_early_leaves_no_file_and_what_was_there(
    run: Run, proxy: Gateway, name: str, tmp_path: Path
) -> None:
    out = tmp_path / "state"
    out.write_bytes(b"of before")
    proxy(Fault(_reads, times=1, cut_after=3), Fault(_reads, cut_after=0))
    ended = run("get", name, "latest", str(out), "--url", proxy.url, "--timeout", "1")
    assert ended.returncode == 3
    assert ended.stderr
    assert (list(tmp_path.iterdir()), out.read_bytes()) == ([out], b"of before")


def test_a_handle_is_removed_unless_it_is_held(run: Run, said: Said, blocking: milepost.Client, name: str) -> None:
    version = json.loads(said("put", name, "latest", "--json", stdin=STATE))["version"]
    with blocking.session() as session:
        session.store(name).get_and_lock("latest")
        held = run("rm", name, "latest")
        assert held.returncode == 1
        assert held.stdout.decode() == f"latest is not removed, because sessions hold it: {session.id}\n"
    assert run("rm", name, "latest", "--version", "0.0").returncode == 1
    assert json.loads(said("rm", name, "latest", "--version", version, "--json")) == {"removed": True, "locks": []}
    assert blocking.store(name).exists("latest") is None
    assert said("rm", name, "latest") == "latest is removed\n"


def test_a_store_with_an_epoch_takes_changes_under_it_alone(
    run: Run, said: Said, session: milepost.Session, name: str
) -> None:
    fenced = run("put", name, "next", stdin=STATE)
    assert (fenced.returncode, fenced.stderr.split(b":")[0]) == (1, b"Fenced")
    said("put", name, "next", "--epoch", "1", stdin=STATE)
    said("rm", name, "next", "--epoch", "1")
    assert run("put", name, "next", "--epoch", "1", "--campaign", stdin=STATE).returncode == 2
    session.store(name).resign()
    assert json.loads(said("put", name, "next", "--campaign", "--json", stdin=STATE))["epoch"] == 2
    said("rm", name, "next", "--campaign")
    assert session.store(name).current_epoch().holder is None


def _reads(request: Request) -> bool:
    return "/state" in request.target


def test_ctrl_c_in_front_of_standard_input_puts_nothing(proxy: Gateway, blocking: milepost.Client, name: str) -> None:
    others = {each.session for each in blocking.sessions()}
    with terminal("put", name, "latest", "--no-progress", "--url", proxy.url) as screen:
        screen.takes(b"some of it")
        (begun,) = {each.session for each in blocking.sessions()} - others
        screen.types(INTERRUPT)
        assert screen.ends(typed=INTERRUPT) == 130
    assert b"Traceback" not in screen.said
    assert blocking.store(name).exists("latest") is None
    assert Request("DELETE", f"/v1/sessions/{begun}") in proxy.requests


def test_nothing_is_under_the_name_until_all_is_there(tmp_path: Path) -> None:
    target = tmp_path / "state"

    def chunks() -> Iterator[bytes]:
        for chunk in (b"one", b"two"):
            assert not target.exists()
            yield chunk

    assert copied(chunks(), target) == 6
    assert target.read_bytes() == b"onetwo"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError("of the source"), KeyboardInterrupt()])
def test_what_was_there_stays_when_the_source_fails(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "state"
    target.write_bytes(b"of before")

    def chunks() -> Iterator[bytes]:
        yield b"one"
        raise error

    with pytest.raises(type(error)):
        copied(chunks(), target)
    assert (list(tmp_path.iterdir()), target.read_bytes()) == ([target], b"of before")


def test_a_link_is_followed_and_the_mode_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "state", tmp_path / "link"
    target.write_bytes(b"of before")
    target.chmod(0o600)
    link.symlink_to(target)
    copied([b"new"], link)
    assert link.is_symlink()
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"new", 0o600)


def test_a_name_may_be_as_long_as_a_file_system_takes(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250)
    copied([b"new"], target)
    assert target.read_bytes() == b"new"


def test_what_is_no_file_is_written_as_it_is() -> None:
    assert copied([b"new"], Path("/dev/null")) == 3
    assert Path("/dev/null").is_char_device()
