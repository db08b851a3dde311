"""How large a group is best for ConfigMaps, in time and in bytes: what decision 21 rests on.

    python -m benchmarks.kubernetes_groups [--seconds 3] [--rounds 3]

etcd and an API server on this machine, no budget of bytes. Each request replaces one of a thousand records of 1 KiB, as
a driver's checkpoint does. Each figure is the median of the rounds: requests per second as a multiple of one at a time,
how long a group takes, and how many bytes are sent to the API server for a request.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from milepost_backends.contract import Change, Done, Head
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from testbed.kubernetes.api import KubernetesApi

VALUE = b"x" * 1024
RECORDS = 1000
SIZES = (1, 4, 16, 64, 128, 256)
_UNBOUNDED = "1000000000"


@dataclass(frozen=True)
class Figure:
    """Requests per second, seconds for a group, and bytes for a request."""

    rate: float
    latency: float
    sent: float


async def measure(store: KubernetesPointers, head: Head, size: int, seconds: float) -> tuple[Figure, Head]:
    """Groups of so many requests, one after another; the head that they leave."""
    shuffled = random.Random(size)
    groups, sent, began = 0, store.bytes_sent, time.monotonic()
    while time.monotonic() < began + seconds:
        keys = shuffled.sample(range(RECORDS), size)
        changes = [Change(f"stores/flights/handles/h{key}", VALUE) for key in keys]
        end = await store.commit(head, changes, head.revision + size)
        if not isinstance(end, Done):
            raise TypeError(f"a group was not committed: {end}")
        head, groups = end.head, groups + 1
    passed = time.monotonic() - began
    return Figure(groups * size / passed, passed / groups, (store.bytes_sent - sent) / groups / size), head


async def rounds(address: KubernetesAddress, seconds: float, count: int) -> dict[int, list[Figure]]:
    """The sizes in turn, so that what else the machine does hits all of them."""
    figures: dict[int, list[Figure]] = {size: [] for size in SIZES}
    store = KubernetesPointers(address)
    await store.open()
    try:
        head = await store.take_over("root")
        for _ in range(count):
            for size in SIZES:
                figure, head = await measure(store, head, size, seconds)
                figures[size].append(figure)
    finally:
        await store.close()
    return figures


def main() -> int:
    """Run it and print the table; the exit status."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seconds", type=float, default=3.0)
    flags.add_argument("--rounds", type=int, default=3)
    options = flags.parse_args()
    with tempfile.TemporaryDirectory() as directory, KubernetesApi(Path(directory)) as api:
        api.start()
        namespace = api.namespace("benchmark")
        query = {"kubeconfig": str(api.service_account(namespace)), "bytes_per_second": _UNBOUNDED}
        address = KubernetesAddress.parse(f"kubernetes://{namespace}/milepost?{urlencode(query)}")
        figures = asyncio.run(rounds(address, options.seconds, options.rounds))
    single = statistics.median(figure.rate for figure in figures[1])
    print(f"{'requests a group':<18}{'rate':>8}{'a group takes':>16}{'bytes a request':>18}")
    for size, measured in figures.items():
        rate = statistics.median(figure.rate for figure in measured) / single
        latency = statistics.median(figure.latency for figure in measured) * 1000
        sent = statistics.median(figure.sent for figure in measured)
        print(f"{size:<18}{rate:>7.1f}x{latency:>13.0f} ms{sent:>18,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
