"""Milepost's REST over ConfigMaps against a ConfigMap that each writer replaces by itself.

    python -m benchmarks.kubernetes_rest [--seconds 5] [--records 64 512 1000]

One API server, one run. The plain ways keep so many records in one ConfigMap and put a changed one there with the
typed client of Kubernetes: one writer with one PUT after another, who keeps in mind what the last one answered; and ten
writers who contend, each of them a process that reads, puts, and begins anew at a conflict. Milepost's clients take and
give back locks of handles in one store that holds as many, each on a connection of its own: a change of a record
without a blob, as that of the plain ways. Told is the rate of changed records, as a multiple of theirs too, and the
bytes sent to the API server for each. What a plain change costs grows with the number of records, since a ConfigMap is
put whole.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from kubernetes import client as kubernetes_client
from kubernetes import config as kubernetes_config
from kubernetes.client.exceptions import ApiException

from benchmarks.rest import STATE, Service, lock, measured
from testbed.kubernetes.api import KubernetesApi
from testbed.server import ServerProcess

CLIENTS = (10, 64)
_VALUE_BYTES = 400
_START_SECONDS = 120.0
_UNBOUNDED = "1000000000"
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Figure:
    """Changed records a second, and bytes sent for each of them."""

    rate: float
    bytes_each: float


class Plain:
    """So many records in one ConfigMap of ``namespace``, without Milepost."""

    def __init__(self, kubeconfig: Path, namespace: str, records: int) -> None:
        self._api = kubernetes_client.CoreV1Api(kubernetes_config.new_client_from_config(str(kubeconfig)))
        self._namespace = namespace
        self._records = records
        self._map = f"plain-{records}"

    def create(self) -> None:
        """Make the ConfigMap."""
        data = {f"h{number}": _value(0, -1) for number in range(self._records)}
        metadata = kubernetes_client.V1ObjectMeta(name=self._map)
        body = kubernetes_client.V1ConfigMap(metadata=metadata, data=data)
        self._api.create_namespaced_config_map(self._namespace, body)

    def alone(self, seconds: float) -> Figure:
        """One writer, who needs no reading."""
        current = self._read()
        changed, sent, began = 0, 0, time.monotonic()
        while time.monotonic() < began + seconds:
            sent += self._change(current, 0, changed)
            current = self._put(current)
            changed += 1
        return Figure(changed / (time.monotonic() - began), sent / changed)

    def contend(self, number: int, seconds: float) -> tuple[int, int]:
        """One of several who read, change, put, and do it again at a conflict: its changes, and the bytes sent."""
        changed, sent, began = 0, 0, time.monotonic()
        while time.monotonic() < began + seconds:
            current = self._read()
            sent += self._change(current, number, changed)
            try:
                self._put(current)
            except ApiException as error:
                if error.status != 409:
                    raise
            else:
                changed += 1
        return changed, sent

    def _change(self, current: Any, writer: int, changed: int) -> int:
        """One record gets what nobody gave it before: the API server writes nothing where nothing changes. The bytes
        that putting it takes.
        """
        current.data[f"h{(writer * 7 + changed) % self._records}"] = _value(writer, changed)
        return len(json.dumps(self._api.api_client.sanitize_for_serialization(current)))

    def _read(self) -> Any:
        return self._api.read_namespaced_config_map(self._map, self._namespace)

    def _put(self, current: Any) -> Any:
        return self._api.replace_namespaced_config_map(self._map, self._namespace, current)


def contending(made: tuple[Path, str, int], seconds: float, writers: int = 10) -> Figure:
    """Writers of one ConfigMap, each a process that makes a `Plain` of what was ``made``; they begin together."""
    context = multiprocessing.get_context("spawn")
    together, ends = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=_writer, args=(made, number, seconds, together, ends), daemon=True)
        for number in range(writers)
    ]
    for process in processes:
        process.start()
    counts = [ends.get(timeout=_START_SECONDS + 10 * seconds) for _ in processes]
    for process in processes:
        process.join()
    changed = sum(count[0] for count in counts)
    return Figure(changed / seconds, sum(count[1] for count in counts) / changed)


def _writer(made: tuple[Path, str, int], number: int, seconds: float, together: Any, ends: Any) -> None:
    plain = Plain(*made)
    together.wait(_START_SECONDS)
    ends.put(plain.contend(number, seconds))


def store_of(server: ServerProcess, records: int) -> Service:
    """A store with so many handles, and a session for each client."""
    service = Service(server.url, keyed=False)
    service.set_up(f"store-{records}", max(CLIENTS))
    for number in range(max(CLIENTS), records):
        service.call("POST", service.path(f"h{number}"), {"milepost-session": "holder-0"}, STATE)
    return service


def by_rest(server: ServerProcess, service: Service, clients: int, seconds: float) -> Figure:
    """So many clients of Milepost on one store."""
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


def _value(writer: int, changed: int) -> str:
    return json.dumps({"schema": 1, "writer": writer, "number": changed, "padding": "x" * _VALUE_BYTES})


def ways(
    made: tuple[Path, str, int], server: ServerProcess, service: Service, seconds: float
) -> dict[str, Callable[[], Figure]]:
    """What is measured side by side, the two plain ways first."""
    plain = Plain(*made)
    plain.create()
    by_clients = {
        f"Milepost, {clients} clients": partial(by_rest, server, service, clients, seconds) for clients in CLIENTS
    }
    return {
        "one writer, a typed PUT each": lambda: plain.alone(seconds),
        "ten writers who contend": lambda: contending(made, seconds),
        **by_clients,
    }


def told(records: int, way: str, figures: list[Figure]) -> str:
    """A line of the table, of the last figure; the first two are those of the plain ways."""
    rate, multiples = figures[-1].rate, [figures[-1].rate / each.rate for each in figures[:2]]
    against = "".join(f"{multiple:>12.1f}x" for multiple in multiples[: len(figures)])
    return f"{records:>7}  {way:<30}{rate:>7.0f}/s{against:<26}{figures[-1].bytes_each:>16,.0f}"


def main() -> int:
    """Run it and print the table; the exit status."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seconds", type=float, default=5.0)
    flags.add_argument(
        "--records", type=int, nargs="+", default=[64, 512, 1000], help="in the ConfigMap, and in the store"
    )
    options = flags.parse_args()
    if min(options.records) < max(CLIENTS):
        flags.error(f"each of {max(CLIENTS)} clients changes a record of its own")
    base = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=base) as name, KubernetesApi(Path(name) / "api") as api:
        api.start()
        namespace = api.namespace("benchmark")
        account = api.service_account(namespace)
        query = urlencode({"kubeconfig": str(account), "bytes_per_second": _UNBOUNDED})
        pointers = f"kubernetes://{namespace}/milepost?{query}"
        with ServerProcess(Path(name) / "server", "--log-level", "warning", pointers=pointers) as server:
            server.start()
            print(f"records  {'way':<30}{'changed':>9}{'against one':>13}{'contending':>13}{'bytes a record':>16}")
            for records in options.records:
                figures: list[Figure] = []
                made = account, namespace, records
                for way, run in ways(made, server, store_of(server, records), options.seconds).items():
                    figures.append(run())
                    print(told(records, way, figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
