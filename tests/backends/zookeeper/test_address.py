"""Addresses in ZooKeeper, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost_backends.contract import Misconfigured
from milepost_backends.zookeeper.address import Tls, ZooKeeperAddress


def test_hosts_path_and_options_are_taken_apart() -> None:
    address = ZooKeeperAddress.parse(
        "zookeeper://h1:2182,h2,[::1]:2183/team/milepost/?session_timeout=2.5&credentials_file=/run/a%20b"
    )
    assert address == ZooKeeperAddress("h1:2182,h2:2181,[::1]:2183", "/team/milepost", 2.5, Path("/run/a b"), None)


def test_what_is_left_out_has_a_default() -> None:
    assert ZooKeeperAddress.parse("zookeeper://h1") == ZooKeeperAddress("h1:2181", "/milepost", 4.0, None, None)
    assert ZooKeeperAddress.parse("zookeeper+tls://h1/") == ZooKeeperAddress("h1:2281", "/milepost", 4.0, None, Tls())


def test_tls_has_options_of_its_own() -> None:
    address = ZooKeeperAddress.parse("zookeeper+tls://h1/m?ca_file=/ca&cert_file=/cert&key_file=/key&verify=ca")
    assert address.tls == Tls(Path("/ca"), Path("/cert"), Path("/key"), "ca")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("zookeeper:h1:2181", "begins with"),
        ("etcd://h1", "begins with"),
        ("zookeeper://", "host:port"),
        ("zookeeper://h1,,h2", "host:port"),
        ("zookeeper://h1:0", "host:port"),
        ("zookeeper://h1:99999", "host:port"),
        ("zookeeper://h 1", "host:port"),
        ("zookeeper://h1/a//b", "not a path"),
        ("zookeeper://h1/../b", "not a path"),
        ("zookeeper://h1/a?timeout=4", "timeout is not an option .* use session_timeout, credentials_file"),
        ("zookeeper://h1/a?ca_file=/ca", "ca_file is not an option"),
        ("zookeeper://h1/a?session_timeout", "name=value"),
        ("zookeeper://h1/a?session_timeout=soon", "seconds"),
        ("zookeeper://h1/a?session_timeout=0", "seconds"),
        ("zookeeper://h1/a?session_timeout=4&session_timeout=5", "twice"),
        ("zookeeper://h1/a?credentials_file=", "credentials_file of .* needs a value"),
        ("zookeeper+tls://h1/a?verify=maybe", "full, ca, none"),
        ("zookeeper+tls://h1/a?cert_file=/cert", "must be given together"),
    ],
)
def test_what_is_wrong_is_named(url: str, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        ZooKeeperAddress.parse(url)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(Misconfigured, match="credentials_file") as caught:
        ZooKeeperAddress.parse("zookeeper://user:hunter2@h1/a")
    assert "hunter2" not in str(caught.value)


def test_credentials_are_read_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("milepost:hunter2\n")
    assert ZooKeeperAddress("h1", credentials_file=file).credentials() == "milepost:hunter2"
    assert ZooKeeperAddress("h1").credentials() is None


@pytest.mark.parametrize("content", ["", "hunter2", "milepost:", "milepost:hunter2\nmore", ":hunter2"])
def test_a_file_without_credentials_is_refused_and_not_repeated(tmp_path: Path, content: str) -> None:
    file = tmp_path / "credentials"
    file.write_text(content)
    with pytest.raises(Misconfigured, match="user:password") as caught:
        ZooKeeperAddress("h1", credentials_file=file).credentials()
    assert "hunter2" not in str(caught.value)


def test_a_missing_file_of_credentials_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="No such file"):
        ZooKeeperAddress("h1", credentials_file=tmp_path / "absent").credentials()
