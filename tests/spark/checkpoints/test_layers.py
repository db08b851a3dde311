"""Archives of checkpoint files."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from milepost.errors import StateTruncated
from milepost.spark.checkpoints import layers
from milepost.spark.checkpoints.layers import pack, unpack
from milepost.spark.checkpoints.snapshot import scan
from tests.spark.checkpoints.directories import put, tree


@pytest.fixture
def source(tmp_path: Path) -> Path:
    put(tmp_path / "from", "state/0/0/1.delta", b"\x00" * 700)
    put(tmp_path / "from", "state/0/0/SSTs/ümlaut and space.sst", b"sst")
    put(tmp_path / "from", "sources/0/0", "")
    return tmp_path / "from"


def in_pieces(archive: bytes, size: int) -> list[bytes]:
    return [archive[at : at + size] for at in range(0, len(archive), size)]


@pytest.mark.parametrize("size", [1, 511, 100_000])
def test_files_come_out_as_they_went_in(source: Path, tmp_path: Path, size: int) -> None:
    archive = pack(source, scan(source), tmp_path / "scratch")
    assert isinstance(archive, bytes)
    written = unpack(in_pieces(archive, size), tmp_path / "to")
    assert tree(tmp_path / "to") == tree(source)
    assert sorted(written) == sorted(scan(source))
    before, after = source / "sources/0/0", tmp_path / "to" / "sources/0/0"
    assert int(after.stat().st_mtime) == int(before.stat().st_mtime)


def test_much_goes_by_way_of_a_file(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "IN_MEMORY", 100)
    archive = pack(source, scan(source), tmp_path / "scratch")
    assert archive == tmp_path / "scratch"
    unpack([(tmp_path / "scratch").read_bytes()], tmp_path / "to")
    assert tree(tmp_path / "to") == tree(source)


def test_half_an_archive_does_not_stay(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be what fills the disk. The file that vanished stands for the one that has no room."""
    monkeypatch.setattr(layers, "IN_MEMORY", 100)
    listed = scan(source)
    (source / "sources/0/0").unlink()
    with pytest.raises(FileNotFoundError):
        pack(source, listed, tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()


def test_a_later_layer_replaces_a_file_of_the_same_path(source: Path, tmp_path: Path) -> None:
    first = pack(source, scan(source), tmp_path / "scratch")
    put(source, "state/0/0/1.delta", b"newer")
    second = pack(source, scan(source), tmp_path / "scratch")
    for archive in (first, second):
        assert isinstance(archive, bytes)
        unpack([archive], tmp_path / "to")
    assert tree(tmp_path / "to") == tree(source)


def test_a_file_that_vanished_or_changed_is_not_packed(source: Path, tmp_path: Path) -> None:
    listed = scan(source)
    put(source, "state/0/0/1.delta", b"another")
    with pytest.raises(FileNotFoundError, match="replaced"):
        pack(source, listed, tmp_path / "scratch")
    (source / "state/0/0/1.delta").unlink()
    with pytest.raises(FileNotFoundError):
        pack(source, listed, tmp_path / "scratch")


@pytest.mark.parametrize("keep", [0, 100, 512, 1300])
def test_half_an_archive_is_damage(source: Path, tmp_path: Path, keep: int) -> None:
    archive = pack(source, scan(source), tmp_path / "scratch")
    assert isinstance(archive, bytes)
    with pytest.raises(StateTruncated):
        unpack([archive[:keep]], tmp_path / "to")


@pytest.mark.parametrize("path", ["../outside", "/outside", "a/../../outside"])
def test_no_path_leads_outside(tmp_path: Path, path: str) -> None:
    with pytest.raises(StateTruncated, match="outside"):
        unpack([archive_of(tarfile.TarInfo(path))], tmp_path / "to")
    assert not (tmp_path / "outside").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("innocent")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with pytest.raises(StateTruncated, match="innocent"):
        unpack([archive_of(link)], tmp_path / "to")


def test_the_chunks_are_read_to_their_end(source: Path, tmp_path: Path) -> None:
    archive = pack(source, scan(source), tmp_path / "scratch")
    assert isinstance(archive, bytes)
    chunks = iter([*in_pieces(archive, 512), b"after the end of the archive"])
    unpack(chunks, tmp_path / "to")
    assert next(chunks, None) is None


def archive_of(member: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(member)
    return buffer.getvalue()
