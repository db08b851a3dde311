"""What an ``hdfs://`` URL may say."""

from __future__ import annotations

import pytest

from milepost_backends.contract import Misconfigured
from milepost_backends.hdfs.address import HdfsAddress, parse_address

pytestmark = pytest.mark.kubernetes


@pytest.mark.parametrize(
    ("url", "address", "name_service"),
    [
        ("hdfs://namenode:8020/milepost", HdfsAddress("namenode:8020", "/milepost"), None),
        ("hdfs://namenode:8020/a/b.c/", HdfsAddress("namenode:8020", "/a/b.c"), None),
        ("hdfs://10.0.0.1:8020/a", HdfsAddress("10.0.0.1:8020", "/a"), None),
        ("hdfs://[::1]:8020/a", HdfsAddress("[::1]:8020", "/a"), None),
        ("hdfs://cluster/a", HdfsAddress("cluster", "/a"), "cluster"),
        ("hdfs://cluster/a?replication=3", HdfsAddress("cluster", "/a", 3), "cluster"),
        ("hdfs:///a", HdfsAddress("", "/a"), None),
    ],
)
def test_what_it_says(url: str, address: HdfsAddress, name_service: str | None) -> None:
    assert parse_address(url) == address
    assert address.name_service == name_service


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("file:/a", "must begin with hdfs://"),
        ("hdfs://namenode:8020", "a directory of Milepost's own"),
        ("hdfs://namenode:8020/", "a directory of Milepost's own"),
        ("hdfs://name node/a", "is not the address of a NameNode"),
        ("hdfs://namenode:port/a", "is not the address of a NameNode"),
        ("hdfs://a:1,b:1/a", "is not the address of a NameNode"),
        ("hdfs://namenode:8020/a/../b", "a path of safe segments"),
        ("hdfs://namenode:8020/.hidden", "a path of safe segments"),
        ("hdfs://namenode:8020/a b", "a path of safe segments"),
        ("hdfs://namenode:8020/a#b", "remove the part after #"),
        ("hdfs://namenode:8020/a?user=me", "user is not an option of hdfs:// URLs"),
        ("hdfs://namenode:8020/a?replication=", "needs a value"),
        ("hdfs://namenode:8020/a?replication=0", "one number"),
        ("hdfs://namenode:8020/a?replication=513", "one number"),
        ("hdfs://namenode:8020/a?replication=-1", "one number"),
        ("hdfs://namenode:8020/a?replication=2&replication=3", "twice"),
    ],
)
def test_what_it_may_not_say(url: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        parse_address(url)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(Misconfigured, match="an hdfs:// URL has no user") as refused:
        parse_address("hdfs://user:hunter2@namenode:8020/a")
    assert "hunter2" not in str(refused.value)
