"""The network of a node is the same to each of its Pods, whichever others come and go."""

from __future__ import annotations

import json

import pytest

from testbed.commands import run
from testbed.node.network import BRIDGE, Network

pytestmark = [pytest.mark.node, pytest.mark.own_node, pytest.mark.timeout(60)]


def test_the_node_keeps_its_hardware_address(network: Network) -> None:
    """A Pod that has just learned the address ignores for a second that it is another one, and keeps what is wrong as
    long as it uses it: then no name is looked up, though Services still answer.
    """

    def ip(*command: str) -> str:
        return run([*network.enter, "ip", *command])

    def address() -> str:
        (link,) = json.loads(ip("-json", "link", "show", BRIDGE))
        return str(link["address"])

    first = address()
    ip("link", "add", "lower", "address", "02:00:00:00:00:01", "type", "veth", "peer", "name", "pod")
    ip("link", "set", "lower", "master", BRIDGE)
    assert address() == first
    ip("link", "delete", "lower")
    assert address() == first
