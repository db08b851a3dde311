"""Milepost's REST over ConfigMaps against a ConfigMap that each writer replaces by itself.

    python -m benchmarks.kubernetes_rest [--seconds 5] [--records 64]

One API server, one run. The plain ways keep the same records in one ConfigMap and put a changed one there with the
typed client of Kubernetes: one writer with one PUT after another, who keeps in mind what the last one answered; and ten
writers who contend, each of whom reads, puts, and begins anew at a conflict. Milepost's clients take and give back
locks of handles in one store, each on a connection of its own: a change of a record without a blob, as that of the
plain ways. Told is the rate of changed records, as a multiple of theirs too, and the bytes sent to the API server for
each.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from kubernetes import client as kubernetes_client
from kubernetes import config as kubernetes_config
from kubernetes.client.exceptions import ApiException

from benchmarks.rest import Service, lock, measured
from parts.kubernetes_api import KubernetesApi
from parts.server import ServerProcess

MAP = "plain"
_VALUE_BYTES = 400
_UNBOUNDED = "1000000000"
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Figure:
    """Changed records a second, and bytes sent for each of them."""

    rate: float
    bytes_each: float


class Plain:
    """Records in one ConfigMap of ``namespace``, without Milepost."""

    def __init__(self, kubeconfig: Path, namespace: str, records: int) -> None:
        self._api = kubernetes_client.CoreV1Api(kubernetes_config.new_client_from_config(str(kubeconfig)))
        self._namespace = namespace
        self._records = records
        data = {f"h{number}": _value(0) for number in range(records)}
        metadata = kubernetes_client.V1ObjectMeta(name=MAP)
        self._api.create_namespaced_config_map(namespace, kubernetes_client.V1ConfigMap(metadata=metadata, data=data))

    def alone(self, seconds: float) -> Figure:
        """One writer, who needs no reading."""
        current = self._read()
        changed, sent, began = 0, 0, time.monotonic()
        while time.monotonic() < began + seconds:
            sent += self._change(current, changed)
            current = self._put(current)
            changed += 1
        return Figure(changed / (time.monotonic() - began), sent / changed)

    def contending(self, seconds: float, writers: int = 10) -> Figure:
        """Writers who read, change, put, and do it again at a conflict."""
        counts = [[0, 0] for _ in range(writers)]
        began = time.monotonic()

        def write(count: list[int], number: int) -> None:
            while time.monotonic() < began + seconds:
                current = self._read()
                count[1] += self._change(current, number + count[0])
                try:
                    self._put(current)
                except ApiException as error:
                    if error.status != 409:
                        raise
                else:
                    count[0] += 1

        threads = [threading.Thread(target=write, args=(count, n * 7)) for n, count in enumerate(counts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.monotonic() - began
        changed = sum(count[0] for count in counts)
        return Figure(changed / elapsed, sum(count[1] for count in counts) / changed)

    def _change(self, current: Any, number: int) -> int:
        """One record; the bytes that putting it takes."""
        current.data[f"h{number % self._records}"] = _value(number)
        return len(json.dumps(self._api.api_client.sanitize_for_serialization(current)))

    def _read(self) -> Any:
        return self._api.read_namespaced_config_map(MAP, self._namespace)

    def _put(self, current: Any) -> Any:
        return self._api.replace_namespaced_config_map(MAP, self._namespace, current)


def by_rest(server: ServerProcess, clients: int, seconds: float) -> Figure:
    """So many clients of Milepost on one store."""
    service = Service(server.url, keyed=False)
    service.set_up(f"store-{clients}", clients)
    before = _sent(server.url)
    load = measured(server, [lock(service, number) for number in range(clients)], seconds, 1_000_000).load
    return Figure(load.rate, (_sent(server.url) - before) / load.count)


def _sent(url: str) -> float:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    (found,) = [line.split()[1] for line in lines if line.startswith("milepost_pointer_bytes_sent ")]
    return float(found)


def _value(number: int) -> str:
    return json.dumps({"schema": 1, "number": number, "padding": "x" * _VALUE_BYTES})


def main() -> int:
    """Run it and print the table; the exit status."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seconds", type=float, default=5.0)
    flags.add_argument("--records", type=int, default=64)
    options = flags.parse_args()
    base = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=base) as name, KubernetesApi(Path(name) / "api") as api:
        api.start()
        namespace = api.namespace("benchmark")
        account = api.service_account(namespace)
        query = urlencode({"kubeconfig": str(account), "bytes_per_second": _UNBOUNDED})
        pointers = f"kubernetes://{namespace}/milepost?{query}"
        plain = Plain(account, namespace, options.records)
        with ServerProcess(Path(name) / "server", "--log-level", "warning", pointers=pointers) as server:
            server.start()
            ways: dict[str, Callable[[], Figure]] = {
                "one writer, a typed PUT each": lambda: plain.alone(options.seconds),
                "ten writers who contend": lambda: plain.contending(options.seconds),
                "Milepost, 10 clients": lambda: by_rest(server, 10, options.seconds),
                "Milepost, 64 clients": lambda: by_rest(server, 64, options.seconds),
            }
            print(f"{'way':<32}{'records':>9}{'against one':>13}{'contending':>12}{'bytes a record':>16}")
            figures: dict[str, Figure] = {}
            for way, run in ways.items():
                figures[way] = run()
                one, ten = (figures.get(each, figures[way]).rate for each in list(ways)[:2])
                rate = figures[way].rate
                print(
                    f"{way:<32}{rate:>7.0f}/s{rate / one:>12.1f}x{rate / ten:>11.1f}x{figures[way].bytes_each:>16,.0f}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
