"""The address of a job's checkpoint, and what Hadoop has to be told to reach it."""

from __future__ import annotations

import pytest

from milepost.core.checkpoint_location import HEADER, checkpoint_location, default_authority
from milepost.types import FileCredential

ONE, TWO = "http://10.0.0.1:7070", "http://10.0.0.2:7070"
_RETRY = "dfs.http.client.retry.policy.enabled"


def test_a_lone_server_is_asked_again_while_it_is_away() -> None:
    location = checkpoint_location([ONE], "flights", 7)
    assert location.url == "webhdfs://10.0.0.1:7070/jobs/flights/checkpoint"
    assert location.settings[HEADER] == "X-Milepost-flights-7"
    assert checkpoint_location([ONE], "my_job", 7).fence[HEADER] == "Milepost-Job-my-ujob-7"
    assert location.settings[_RETRY] == "true"
    assert location.fence.items() <= location.settings.items()


def test_several_are_a_name_service() -> None:
    location = checkpoint_location([ONE, TWO], "flights", 7)
    assert location.url == "webhdfs://milepost/jobs/flights/checkpoint"
    assert location.settings["dfs.nameservices"] == "milepost"
    assert location.settings["dfs.ha.namenodes.milepost"] == "r1,r2"
    assert location.settings["dfs.namenode.http-address.milepost.r2"] == "10.0.0.2:7070"
    assert _RETRY not in location.settings


@pytest.mark.parametrize("urls", [[TWO, ONE], [TWO]])
def test_the_authority_of_a_server_that_is_no_longer_alone_or_has_moved_stays(urls: list[str]) -> None:
    """Hadoop takes its host for the name of a service, whatever its port."""
    location = checkpoint_location(urls, "flights", 8, authority="10.0.0.1:7070")
    assert location.url == checkpoint_location([ONE], "flights", 7).url
    assert location.settings["dfs.nameservices"] == "10.0.0.1"
    assert location.settings["dfs.namenode.http-address.10.0.0.1.r1"] == "10.0.0.2:7070"


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://milepost", "milepost:80"),
        ("https://milepost/", "milepost:443"),
        ("http://somebody:secret@milepost:81", "milepost:81"),
        ("http://[::1]:7070", "[::1]:7070"),
    ],
)
def test_an_authority_has_a_port_and_holds_no_secret(url: str, authority: str) -> None:
    """Hadoop would add that of a NameNode, and what is in an address is written into checkpoints and logs."""
    assert default_authority([url]) == authority
    assert f"://{authority}/jobs" in checkpoint_location([url], "flights", 1).url


@pytest.mark.parametrize(
    "authority",
    ["milepost", "milepost:7070", "[::1]:7070", "a.b-c", "a1.example.", "10.0.0.1", "1.2.a", "x:65535", "3f2a"],
)
def test_authorities_that_hadoop_takes(authority: str) -> None:
    assert f"//{authority}/jobs/" in checkpoint_location([ONE], "flights", 7, authority=authority).url


@pytest.mark.parametrize(
    "authority",
    [
        *("mile post", "user@milepost", "milepost:", "?", "my_job", "-x", "x-", "..", "a..b", ".a", "a.1a", "a.1", "é"),
        *("a/b", "x:99999", "x:0", "10.0.0.256", "[10.0.0.1]", "[::g]", "::1", "[::1", "a:b", "a\n"),
    ],
)
def test_authorities_in_which_hadoop_finds_no_host(authority: str) -> None:
    with pytest.raises(ValueError, match="cannot be the authority of a checkpoint location"):
        checkpoint_location([ONE], "flights", 7, authority=authority)


@pytest.mark.parametrize("url", ["http://h:", "http://my_host:7070"])
def test_addresses_in_which_hadoop_finds_no_host(url: str) -> None:
    with pytest.raises(ValueError, match=f"'{url.removeprefix('http://')}' cannot be an address of the service"):
        checkpoint_location([url], "flights", 7, authority="milepost")


def test_an_address_with_a_path() -> None:
    """Hadoop knows hosts and ports alone, and would lose the path."""
    with pytest.raises(ValueError, match=r"the address 10\.0\.0\.2:7070/prefix has a path, and Hadoop finds"):
        checkpoint_location([ONE, f"{TWO}/prefix/"], "flights", 7)


@pytest.mark.parametrize(
    ("token_url", "expected"),
    [
        (None, f"{TWO}/oauth2/token"),
        (ONE, f"{ONE}/oauth2/token"),
        (f"{ONE}/", f"{ONE}/oauth2/token"),
        ("http://door/tokens", "http://door/tokens"),
    ],
)
def test_where_spark_gets_tokens(token_url: str | None, expected: str) -> None:
    credential = FileCredential(7, "flights-7", "the-secret")
    location = checkpoint_location([TWO, ONE], "flights", 7, credential=credential, token_url=token_url)
    assert location.settings["dfs.webhdfs.oauth2.refresh.url"] == expected


def test_tls_is_another_scheme() -> None:
    urls = [url.replace("http:", "https:") for url in (ONE, TWO)]
    location = checkpoint_location(urls, "flights", 7)
    assert location.url == "swebhdfs://milepost/jobs/flights/checkpoint"
    assert location.settings["dfs.namenode.https-address.milepost.r1"] == "10.0.0.1:7070"
    assert location.fence["fs.swebhdfs.impl.disable.cache"] == "true"


@pytest.mark.parametrize("urls", [[ONE, "https://10.0.0.2:7070"], ["ftp://10.0.0.1"], ["127.0.0.1:7070"]])
def test_addresses_of_two_kinds(urls: list[str]) -> None:
    with pytest.raises(ValueError, match=r"http, or all with https|begins neither with http:// nor with https://"):
        checkpoint_location(urls, "flights", 7)
