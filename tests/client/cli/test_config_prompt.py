"""``milepost config set-context --token-stdin`` asks for the token on a real terminal, which does not show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from milepost.cli.contexts import FILE_VARIABLE, TOKEN, ContextFile
from tests.support.terminal import END, INTERRUPT, Terminal, terminal

TOKEN_TYPED = "a-token-that-nobody-sees"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


@contextmanager
def asked(path: Path) -> Iterator[Terminal]:
    """The command, which waits for a token."""
    options = ("--url", "http://127.0.0.1:7070", "--token-stdin")
    with terminal("config", "set-context", "here", *options, environment={FILE_VARIABLE: str(path)}) as screen:
        screen.shows(b"token: ")
        yield screen


def test_a_token_is_typed_unseen(path: Path) -> None:
    with asked(path) as screen:
        screen.types(f"{TOKEN_TYPED}\n".encode())
        assert screen.ends() == 0
    assert TOKEN_TYPED.encode() not in screen.said
    assert ContextFile(path).read().contexts["here"][TOKEN] == TOKEN_TYPED


@pytest.mark.parametrize(("keys", "status"), [(END, 1), (INTERRUPT, 130)], ids=["end-of-input", "ctrl-c"])
def test_who_types_none_makes_no_context(path: Path, keys: bytes, status: int) -> None:
    with asked(path) as screen:
        screen.types(keys)
        assert screen.ends(typed=keys) == status
    assert b"Traceback" not in screen.said
    assert not path.exists()
