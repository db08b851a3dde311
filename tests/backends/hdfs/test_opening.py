"""Opening HDFS blobs: which NameNode, whose rights, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from milepost_backends.contract import Misconfigured, StorageFull, StorageUnavailable
from milepost_backends.hdfs.blobs import HdfsBlobs
from testbed.hadoop.programs import configure
from testbed.ports import Port
from tests.contracts.streams import is_missing, keys, read, stream
from tests.support.servers.hdfs import HdfsPlace

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

DAY = 86400.0


async def works(url: str) -> bool:
    """Whether a store at the URL opens, takes a blob and gives it back."""
    store = HdfsBlobs(url)
    await store.open()
    try:
        await store.put("a/blob", stream(b"here"))
        return await read(store, "a/blob") == b"here"
    finally:
        await store.close()


async def refusal(url: str) -> str:
    """What a store that cannot work says at its opening."""
    with pytest.raises(Misconfigured) as refused:
        await HdfsBlobs(url).open()
    return str(refused.value)


async def test_a_directory_that_is_missing_is_made_and_closed_to_others(hdfs: HdfsPlace) -> None:
    assert await works(hdfs.url + "/deep/down")
    permissions = {key: hdfs.client.get_file_info(hdfs.at(key)).permission for key in ("deep", "deep/down")}
    assert permissions == {"deep": 0o755, "deep/down": 0o700}


async def test_opening_leaves_nothing_behind_but_the_directory_for_uploads(hdfs: HdfsPlace) -> None:
    store = HdfsBlobs(hdfs.url)
    await store.open()
    await store.close()
    assert hdfs.names() == [".uploading"]


async def test_a_file_where_the_directory_should_be(hdfs: HdfsPlace) -> None:
    hdfs.write("file", b"x")
    assert "is a file" in await refusal(hdfs.url + "/file")
    assert "cannot be made a directory" in await refusal(hdfs.url + "/file/below")


async def test_a_user_who_may_not_write(hdfs: HdfsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """HADOOP_USER_NAME says who one is, as far as a cluster without Kerberos cares."""
    hdfs.client.mkdirs(hdfs.at("others"), 0o755, create_parent=True)
    hdfs.client.mkdirs(hdfs.at("own"), 0o700)
    hdfs.client.set_owner(hdfs.at("own"), owner="stranger")
    hdfs.client.mkdirs(hdfs.at("hidden/root"), 0o755, create_parent=True)
    hdfs.client.set_permission(hdfs.at("hidden"), 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    assert await works(hdfs.url + "/own")
    assert hdfs.client.get_file_info(hdfs.at("own/a/blob")).owner == "stranger"
    for place in ("others", "hidden/root", "not-made-yet"):
        assert "Permission denied: user=stranger" in await refusal(f"{hdfs.url}/{place}")


async def test_a_directory_that_has_become_read_only(hdfs: HdfsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files can still be made among the uploads, but not moved from there."""
    hdfs.client.mkdirs(f"/{hdfs.path}", create_parent=True)
    hdfs.client.set_permission(f"/{hdfs.path}", 0o777)
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    store = HdfsBlobs(hdfs.url)
    await store.open()
    await store.put("a/kept", stream(b"kept"))
    hdfs.client.set_permission(f"/{hdfs.path}", 0o555)
    assert "Permission denied: user=stranger" in await refusal(hdfs.url)
    with pytest.raises(StorageUnavailable, match="Permission denied: user=stranger"):
        await store.put("b/blob", stream(b"x"))
    assert await read(store, "a/kept") == b"kept"
    assert await is_missing(store, "b/blob")
    await store.close()


async def test_a_name_node_that_nobody_is(hdfs: HdfsPlace) -> None:
    port = Port()
    store = HdfsBlobs(f"hdfs://{port.address}/{hdfs.path}", deadline=5.0)
    with pytest.raises(StorageUnavailable):
        await store.open()


async def test_a_name_service_that_nothing_describes(hdfs: HdfsPlace) -> None:
    assert "No NameNode hosts found" in await refusal(f"hdfs://nobody/{hdfs.path}")


async def test_a_configuration_that_cannot_be_read(
    hdfs: HdfsPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert "XmlParseError" in await refusal(hdfs.url)


async def test_the_default_file_system(hdfs: HdfsPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, {"fs.defaultFS": hdfs.server.url("")})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert await works(f"hdfs:///{hdfs.path}")
    assert "a/blob" in hdfs.names()


async def test_the_replication_that_was_asked_for(hdfs: HdfsPlace) -> None:
    assert await works(hdfs.url + "?replication=1")
    assert hdfs.client.get_file_info(hdfs.at("a/blob")).replication == 1
    store = HdfsBlobs(hdfs.url + "/wide?replication=3")
    await store.open()
    await store.put("blob", stream(b"x"))
    await store.close()
    assert hdfs.client.get_file_info(hdfs.at("wide/blob")).replication == 3


@contextmanager
def safe_mode(hdfs: HdfsPlace) -> Iterator[None]:
    """The NameNode takes no change."""
    hdfs.server.admin("-safemode", "enter")
    try:
        yield
    finally:
        hdfs.server.admin("-safemode", "leave")


async def test_safe_mode_is_an_outage_of_writing(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    await hdfs_store.put("a/kept", stream(b"kept"))
    later = HdfsBlobs(hdfs.url)
    with safe_mode(hdfs):
        for call in (later.open(), hdfs_store.put("a/blob", stream(b"x")), hdfs_store.delete("a/kept")):
            with pytest.raises(StorageUnavailable, match="SafeModeException"):
                await call
        assert await read(hdfs_store, "a/kept") == b"kept"
        assert await keys(hdfs_store) == ["a/kept"]
    await later.open()
    await later.put("a/blob", stream(b"x"))
    await later.close()
    assert await keys(hdfs_store) == ["a/blob", "a/kept"]


@pytest.mark.parametrize("quota", [("-setQuota", "4"), ("-setSpaceQuota", "4194310")], ids=["names", "bytes"])
async def test_a_quota_that_is_used_up(hdfs: HdfsPlace, quota: tuple[str, str]) -> None:
    """The store opens nevertheless: it can be read, and room can be made."""
    hdfs.write("kept", b"kept")
    hdfs.write("removed", b"removed")
    hdfs.client.mkdirs(hdfs.at(".uploading"))
    hdfs.server.admin(*quota, f"/{hdfs.path}")
    store = HdfsBlobs(hdfs.url)
    await store.open()
    with pytest.raises(StorageFull):
        await store.put("blob", stream(b"x"))
    assert await is_missing(store, "blob")
    assert await read(store, "kept") == b"kept"
    assert all([0 <= info.age < 600 async for info in store.list("", 0.0)])
    await store.delete("removed")
    await store.put("blob", stream(b"x"))
    assert await keys(store) == ["blob", "kept"]
    await store.close()


async def test_what_dead_writers_left_is_deleted_when_it_is_a_day_old(hdfs: HdfsPlace) -> None:
    for name in (".uploading/old", ".uploading/young", ".probe-old", ".probe-young", "a/blob"):
        hdfs.write(name, b"x")
    for name in (".uploading/old", ".probe-old", "a/blob"):
        hdfs.age(name, DAY + 60)
    for name in (".uploading/young", ".probe-young"):
        hdfs.age(name, DAY - 60)
    store = HdfsBlobs(hdfs.url)
    await store.open()
    await store.close()
    assert hdfs.names() == [".probe-young", ".uploading", ".uploading/young", "a", "a/blob"]
