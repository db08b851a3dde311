"""What a client offers beside sessions and stores; credentials; the example in the documentation."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.aio import AsyncClient, AsyncSession, AsyncStateHandleStore
from milepost.errors import ERROR_OF
from tests.client.conftest import Service, serving
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


def test_stores_are_listed(client: Any, name: str) -> None:
    with client.session(holder="a") as session:
        session.store(name).add_and_lock("latest", b"state")
    (summary,) = [summary for summary in client.stores() if summary.store == name]
    assert summary.handles == 1
    assert summary.revision > 0


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
        with pytest.raises(milepost.AccessDenied) as raised:
            viewer.session(holder="b").__enter__()
        assert raised.value.status == 403


@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_the_right_token_it_stays_shut(guarded: Service, flavour: str, token: str | None) -> None:
    with connected(flavour, guarded.url, token=token) as client, pytest.raises(milepost.AccessDenied) as raised:
        client.store("s").exists("latest")
    assert raised.value.status == 401


@pytest.mark.parametrize("client_class", [milepost.Client, AsyncClient])
def test_wrong_settings_are_refused(client_class: type[Any]) -> None:
    with pytest.raises(ValueError, match="URL"):
        client_class("localhost:7070")
    with pytest.raises(ValueError, match="timeout"):
        client_class("http://localhost:7070", timeout=0)


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


def test_the_spark_side_says_what_it_needs() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import milepost.spark"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "ModuleNotFoundError: milepost.spark needs pyspark: pip install 'milepost[spark]'" in ran.stderr
