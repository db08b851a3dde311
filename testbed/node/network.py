"""Makes the network of a node: a network namespace with a bridge in it, apart from the machine's own network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.commands import run

NODE = "10.244.0.1"
"""The address of every node: each is alone in its network."""

PODS = "10.244.0.0/24"
SERVICES = "10.96.0.0/24"
API = "10.96.0.1"
"""The address of the Service ``kubernetes``."""

BRIDGE = "cni0"
_BRIDGE_ADDRESS = "02:00:0a:f4:00:01"


class Network:
    """The network namespace ``name``. Programs in it reach Pods, Services and the node, and nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = Path("/run/netns") / name

    @property
    def enter(self) -> Sequence[str]:
        """The beginning of a command that is to run inside. (``ip netns exec`` would hide its mounts from others.)"""
        return ("nsenter", f"--net={self.path}", "--")

    def make(self) -> None:
        """Make the namespace and the bridge. Raises `ProcessFailed`."""
        run(["ip", "netns", "add", self.name])
        for command in (
            "link set lo up",
            # without an address of its own, it changes to another one as Pods come and go, which Pods may miss
            f"link add {BRIDGE} address {_BRIDGE_ADDRESS} type bridge",
            f"addr add {NODE}/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
            f"route add default dev {BRIDGE}",  # an address of a Service is rewritten only on its way to somewhere
        ):
            run([*self.enter, "ip", *command.split()])
        run([*self.enter, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])

    def remove(self) -> None:
        """Remove the namespace. Idempotent."""
        if self.path.exists():
            run(["ip", "netns", "delete", self.name])
