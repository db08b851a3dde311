"""One journal for all stores in ConfigMaps against a journal per store: what decision 20 rests on.

    python -m benchmarks.kubernetes_journals [--stores 64] [--records 2000]

As many clients as stores, each of which replaces a record of its own store and waits for the answer, again and again.
With one journal all that wait share a write; with one per store each client waits for a write of its own, many of which
are on their way at once. The rest of Milepost is left out of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from milepost_backends.contract import Change, Done, Head
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from testbed.kubernetes.api import KubernetesApi

_VALUE = json.dumps({"schema": 1, "state": "x" * 380}).encode()
_UNBOUNDED = "1000000000"


class Journal:
    """A journal with one group at a time on its way; what comes meanwhile waits for the next one."""

    def __init__(self, pointers: KubernetesPointers, head: Head) -> None:
        self._pointers = pointers
        self._head = head
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._running: asyncio.Task[None] | None = None

    async def write(self, key: str) -> None:
        """Replace a record; return once that is done."""
        committed = asyncio.get_running_loop().create_future()
        self._waiting.append((key, committed))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        await committed

    async def _run(self) -> None:
        while self._waiting:
            await self._commit()
        self._running = None

    async def _commit(self) -> None:
        limit = self._pointers.limits.requests
        group, self._waiting = self._waiting[:limit], self._waiting[limit:]
        changes = [Change(key, _VALUE) for key, _ in group]
        end = await self._pointers.commit(self._head, changes, self._head.revision + len(changes))
        assert isinstance(end, Done), end
        self._head = end.head
        for _, committed in group:
            committed.set_result(None)


async def rate(url: str, stores: int, records: int, *, apart: bool) -> tuple[float, float]:
    """Records a second, and bytes sent to the API server for each."""
    pointers = KubernetesPointers(KubernetesAddress.parse(url))
    await pointers.open()
    try:
        names = [f"store-{number}" for number in range(stores)] if apart else ["root"]
        journals = [Journal(pointers, await pointers.take_over(name)) for name in names]

        async def client(number: int) -> None:
            journal = journals[number % len(journals)]
            for _ in range(records // stores):
                await journal.write(f"stores/store-{number}/handles/latest")

        sent, began = pointers.bytes_sent, time.monotonic()
        await asyncio.gather(*(client(number) for number in range(stores)))
        seconds = time.monotonic() - began
        return records / seconds, (pointers.bytes_sent - sent) / records
    finally:
        await pointers.close()


def main() -> int:
    """Run it and print the table; the exit status."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--stores", type=int, default=64)
    flags.add_argument("--records", type=int, default=2000)
    options = flags.parse_args()
    with tempfile.TemporaryDirectory() as directory, KubernetesApi(Path(directory)) as api:
        api.start()
        rates: dict[bool, float] = {}
        print(
            f"{options.stores} clients, each on a store of its own\n{'journals':<12}{'rate':>8}{'bytes a record':>18}"
        )
        for apart in (True, False):
            namespace = api.namespace("benchmark")
            query = {"kubeconfig": str(api.service_account(namespace)), "bytes_per_second": _UNBOUNDED}
            url = f"kubernetes://{namespace}/milepost?{urlencode(query)}"
            rates[apart], sent = asyncio.run(rate(url, options.stores, options.records, apart=apart))
            name = "one each" if apart else "one for all"
            print(f"{name:<12}{rates[apart] / rates[True]:>7.1f}x{sent:>18,.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
