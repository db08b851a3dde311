"""The names that a server without tokens answers to; the wire's tests ask a real one."""

from __future__ import annotations

import pytest

from milepost.errors import Problem
from milepost_server.http.access.hosts import Hosts


def answers(hosts: Hosts, host: str | None) -> bool:
    try:
        hosts.check(host, [], "GET")
    except Problem:
        return False
    return True


@pytest.mark.parametrize("host", ["192.0.2.1", "192.0.2.1:7070", "[2001:db8::1]:7070", "[fe80::1%25eth0]"])
def test_addresses_only_where_others_than_this_machine_reach_the_server(host: str) -> None:
    """An address cannot be let point elsewhere, so a page that was loaded from it is the server's own."""
    assert not answers(Hosts("http://127.0.0.1:7070"), host)
    assert answers(Hosts("http://127.0.0.1:7070", any_address=True), host)


@pytest.mark.parametrize("host", ["1.2.3.4.example", "1.2.3", "0x7f000001", "2130706433", "017700000001", "::1::"])
def test_what_only_looks_like_an_address_is_a_name(host: str) -> None:
    assert not answers(Hosts("http://127.0.0.1:7070", any_address=True), host)


def test_the_advertised_name_may_be_an_ipv6_address() -> None:
    assert answers(Hosts("http://[2001:db8::7]:7070"), "[2001:db8::7]:9")
    assert not answers(Hosts("http://[2001:db8::7]:7070"), "[2001:db8::8]:9")


def test_a_star_is_every_name() -> None:
    assert answers(Hosts("http://127.0.0.1:7070", ["*"]), "evil.example")
    assert not answers(Hosts("http://127.0.0.1:7070", [""]), "evil.example")
    assert not answers(Hosts("http://127.0.0.1:7070", [""]), "")
