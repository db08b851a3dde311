"""A listing of an HDFS tells of blobs alone, and leaves out what vanishes while it is made."""

from __future__ import annotations

import pytest

from milepost_backends.hdfs.blobs import HdfsBlobs
from tests.contracts.streams import keys, stream
from tests.support.servers.hdfs import HdfsPlace

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

DAY = 86400.0


async def test_only_what_can_be_a_blob_is_listed(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    for name in ("a/blob", "a/.hidden", ".uploading/x", ".probe-x", "a/with space", "b c/blob", ".own/blob", "é"):
        hdfs.write(name, b"x")
    assert await keys(hdfs_store) == ["a/blob"]


async def test_ages_are_by_the_clock_of_the_name_node(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    await hdfs_store.put("a/young", stream(b"x"))
    await hdfs_store.put("a/old", stream(b"x"))
    hdfs.age("a/old", 7200.0)
    ages = {info.key: info.age async for info in hdfs_store.list("", 0.0)}
    assert 0.0 <= ages["a/young"] < 600.0
    assert 7200.0 <= ages["a/old"] + 1.0 < 7800.0
    assert await keys(hdfs_store, "", 3600.0) == ["a/old"]


async def test_a_file_from_the_future_has_no_age(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    """A NameNode that took over may have another clock."""
    await hdfs_store.put("a/blob", stream(b"x"))
    hdfs.age("a/blob", -7200.0)
    assert [info.age async for info in hdfs_store.list("", 0.0)] == [0.0]


async def test_directories_that_are_empty_for_a_day_are_removed(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    for name in ("old", "young", "parent/old"):
        hdfs.client.mkdirs(hdfs.at(name), create_parent=True)
    hdfs.write("full/blob", b"x")
    hdfs.write("dotted/.own", b"x")
    for name in ("old", "parent/old", "parent", "full", "dotted"):
        hdfs.age(name, DAY + 60)
    hdfs.age("young", DAY - 60)
    assert await keys(hdfs_store) == ["full/blob"]
    assert [name for name in hdfs.names() if "/" not in name] == [".uploading", "dotted", "full", "parent", "young"]
    assert "parent/old" not in hdfs.names()


async def test_a_store_that_stays_open_clears_up_from_time_to_time(hdfs: HdfsPlace) -> None:
    for clear_every, left in ((3600.0, [".uploading", ".uploading/old"]), (0.0, [".uploading"])):
        store = HdfsBlobs(hdfs.url, clear_every=clear_every)
        await store.open()
        hdfs.write(".uploading/old", b"x")
        hdfs.age(".uploading/old", DAY + 60)
        assert await keys(store) == []
        assert hdfs.names() == left
        await store.close()
