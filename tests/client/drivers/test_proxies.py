"""Which requests go through a proxy, and how the answers and refusals of one are told. The proxies are fakes: a real
one could be made to refuse, but not to say so in each of these ways.
"""

from __future__ import annotations

from itertools import repeat

import httpx
import pytest

import milepost
from milepost.drivers.proxies import Proxies
from testbed.ports import Port
from tests.client.drivers.test_transports import STATUS
from tests.client.flavours import connected
from tests.support.network.scripted_server import ScriptedServer, reply

PROXY = "http://proxy.test:3128"
_VARIABLES = [f"{name}_proxy" for name in ("http", "https", "all", "no")]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment that the tests run in."""
    for name in (*_VARIABLES, *map(str.upper, _VARIABLES)):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("entries", "url", "direct"),
    [
        ("10.0.0.0/8", "http://10.1.2.3:7070", True),
        ("10.0.0.0/8", "http://11.1.2.3:7070", False),
        ("10.0.0.0/8", "http://ten.example", False),
        ("10.0.0.1/8", "http://10.1.2.3", True),  # as Go has it
        ("10.0.0.0/8:7070", "http://10.1.2.3:7070", True),
        ("10.0.0.0/99", "http://10.0.0.0", False),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("10.1.2.3:7070", "http://10.1.2.3:7070", True),
        ("10.1.2.3:7070", "http://10.1.2.3:7071", False),
        ("fd00::/8", "http://[fd12::1]:7070", True),
        ("[fd00::]/8", "https://[fd12::1]", True),
        ("fd00::/8", "http://[fe80::1]:7070", False),
        ("fd00:0:0::1", "http://[fd00::1]", True),
        ("[fd00::1]:443", "https://[fd00::1]", True),
        ("[fd00::1]:443", "http://[fd00::1]", False),
        ("example.com", "http://example.com", True),
        ("Example.COM", "http://a.EXAMPLE.com", True),
        ("example.com", "http://notexample.com", False),
        (".example.com", "http://a.example.com", True),
        (".example.com", "http://example.com", False),
        ("*.example.com", "http://a.example.com", True),
        ("example.com:7070", "http://example.com:7070", True),
        ("example.com:80", "http://example.com", True),
        ("example.com:81", "http://example.com", False),
        ("https://example.com", "https://example.com", True),
        ("https://example.com", "http://example.com", False),
        ("bücher.example", "http://xn--bcher-kva.example", True),
        ("xn--bcher-kva.example", "http://bücher.example", True),
        ("other, 10.0.0.0/8 ,fd00::/8", "http://10.1.2.3", True),
        ("other,*", "http://anything", True),
        ("", "http://anything", False),
        ("!!,a:b,[,/,:,//", "http://anything", False),
    ],
)
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_what_no_proxy_names(
    entries: str, url: str, direct: bool, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", PROXY)
    monkeypatch.setenv(variable, entries)
    assert (Proxies().of(httpx.URL(url)) is None) is direct


def test_the_proxy_of_each_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:very-secret@one.test:1")
    monkeypatch.setenv("all_proxy", "[::1]:2")
    proxies = Proxies()
    hint = "; what NO_PROXY names goes without it"
    assert str(proxies.of(httpx.URL("https://a"))) == f"the proxy http://one.test:1 (from HTTPS_PROXY{hint})"
    assert str(proxies.of(httpx.URL("http://a"))) == f"the proxy http://[::1]:2 (from all_proxy{hint})"
    assert "very-secret" not in repr(proxies.all())
    assert Proxies(trust_env=False).of(httpx.URL("http://a")) is None
    given = Proxies("http://user:very-secret@given.test")
    assert str(given.of(httpx.URL("http://a"))) == "the proxy http://given.test (the argument proxy)"


@pytest.mark.parametrize(
    ("entries", "direct"),
    [("127.0.0.0/8", True), ("fd00::/8,127.0.0.1", True), ("*", True), ("10.0.0.0/8,fd00::/8", False)],
)
def test_a_leader_in_a_network_is_asked_without_the_proxy(
    flavour: str, entries: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica sends to the leader by its address, which no name in NO_PROXY covers."""
    with ScriptedServer([reply(200, STATUS)]) as leader, ScriptedServer([reply(200, STATUS)]) as proxy:
        with ScriptedServer([reply(307, Location=f"{leader.url}/v1/status")]) as replica:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("NO_PROXY", f"localhost,{entries}")
            address = replica.url.replace("127.0.0.1", "localhost")
            with connected(flavour, address, timeout=20.0) as client:
                assert client.status().replica == "r1"
        assert (len(leader.seen), len(proxy.seen)) == ((1, 0) if direct else (0, 1))


def refused(flavour: str, url: str) -> str:
    """What a client says that asks at this address, in vain."""
    with connected(flavour, url, timeout=1.0) as client, pytest.raises(milepost.MilepostError) as caught:
        client.status()
    assert isinstance(caught.value, (milepost.ConnectionFailed, milepost.Unavailable))
    assert "very-secret" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_nobody_reaches(flavour: str, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = Port()
    monkeypatch.setenv(f"{scheme}_proxy".upper(), f"http://user:very-secret@127.0.0.1:{port.number}")
    said = refused(flavour, f"{scheme}://10.1.2.3:7070")
    assert said.startswith("10.1.2.3:7070 ConnectError ")
    assert f"by way of the proxy http://127.0.0.1:{port.number} (from {scheme.upper()}_PROXY; " in said
    assert said.endswith("the service was not asked")


def test_a_proxy_that_does_not_connect(flavour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(repeat(reply(403, Milepost_Term=""))) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//user:very-secret@"))
        said = refused(flavour, "https://10.1.2.3:7070")
        assert proxy.seen[0].method == "CONNECT"
        address = f"the proxy {proxy.url} (from HTTPS_PROXY; what NO_PROXY names goes without it)"
    assert said == f"10.1.2.3:7070 was not asked: {address} answered 403 x"


@pytest.mark.parametrize(
    ("status", "asked"), [(407, "was not"), (403, "may not have been"), (502, "may not have been")]
)
def test_a_proxy_that_answers_itself(flavour: str, status: int, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(repeat(reply(status, b"blocked by policy", Milepost_Term=""))) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//user:very-secret@"))
        said = refused(flavour, "http://10.1.2.3:7070")
        way = f"by way of the proxy {proxy.url} (from http_proxy; "
    assert f"not an answer of Milepost: status {status} without Milepost-Term, {way}" in said
    assert said.endswith(f"the service {asked} asked")
