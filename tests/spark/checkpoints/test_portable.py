"""Files that name the checkpoint's directory, carried to another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milepost.errors import UnsafeQuery, WrongCheckpoint
from milepost.spark.checkpoints.portable import MARK, fitted, portable

HERE = Path("/work/flights/0a1b/e1")
METADATA = "state/0/_metadata/v2/0"


def metadata(directory: Path | str) -> bytes:
    """Operator metadata as transformWithState has it."""
    paths = [
        f"file:{directory}/state/0/_stateSchema/default/0_7f",
        f"file:{directory}/state/0/_stateSchema/default/3_9a",
    ]
    return f"v2\n{json.dumps({'stateSchemaFilePaths': paths}, ensure_ascii=False)}".encode()


@pytest.mark.parametrize("there", ["/work/flights/0a1b/e12", "/a b/wörk%20dir/0a1b/e2", '/q"uote\\/0a1b/e2'])
@pytest.mark.parametrize("here", [str(HERE), "/ö x/0a1b/e1"])
def test_what_names_the_directory_names_the_new_one(here: str, there: str) -> None:
    stored = portable(METADATA, metadata(here), Path(here))
    assert here.encode() not in stored
    back = fitted(METADATA, stored, Path(there))
    assert json.loads(back.splitlines()[1])["stateSchemaFilePaths"] == [
        f"file:{there}/state/0/_stateSchema/default/0_7f",
        f"file:{there}/state/0/_stateSchema/default/3_9a",
    ]


def test_what_is_stored_is_the_same_wherever_it_was_written() -> None:
    there = Path("/elsewhere/0a1b/e2")
    assert portable(METADATA, metadata(HERE), HERE) == portable(METADATA, metadata(there), there)


def test_a_relative_directory_is_named_absolutely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert MARK in portable(METADATA, metadata(tmp_path / "0a1b" / "e1"), Path("0a1b/e1"))


@pytest.mark.parametrize(
    "content",
    [
        b'v1\n{"path":"file:///data/in/1.json"}',
        b'{"path":"/work/flights/0a1b"}',
        b'{"path":"/work/flights/other/e1/state"}',
        b"\x00\x01\xff" * 100,
        b"",
    ],
)
def test_everything_else_stays_as_it_is(content: bytes) -> None:
    assert portable("sources/0/1", content, HERE) == content
    assert fitted("sources/0/1", content, HERE) == content


@pytest.mark.parametrize("path", ["state/0/1/7.delta", "state/0/0/SSTs/000012-7f.sst", "state/0/1/left/3_u.changelog"])
def test_the_users_own_rows_say_what_they_like(path: str) -> None:
    content = MARK + metadata(HERE) + b"/0a1b/e9/"
    assert portable(path, content, HERE) == content
    assert fitted(path, content, HERE) == content


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x16file:/work/flights/0a1b/e1/state",
        b'{"path":"/work/flights/0a1b/e12/state"}',
        b'{"path":"/mnt/work/flights/0a1b/e1/state"}',
        b'{"path":"file:/work%2Dother/flights/0a1b/e1"}',
        b'{"path":"/work/flights/0a1b/.e1/state"}',
    ],
    ids=["not JSON", "another epoch", "beneath another", "written otherwise", "hidden"],
)
def test_what_cannot_be_carried_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(UnsafeQuery, match=r"state/0/_other names …/0a1b/\.?e1.*no later driver"):
        portable("state/0/_other", content, HERE)


def test_the_mark_itself_is_refused() -> None:
    with pytest.raises(UnsafeQuery, match="metadata holds <milepost:checkpoint>"):
        portable("metadata", MARK, HERE)


def test_a_checkpoint_that_names_an_older_epoch_is_refused_by_name() -> None:
    with pytest.raises(WrongCheckpoint, match=r"state/0/_metadata/v2/0 of the checkpoint names …/0a1b/e1"):
        fitted(METADATA, metadata(HERE), Path("/work/flights/0a1b/e2"))
