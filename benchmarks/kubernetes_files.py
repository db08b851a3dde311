"""How many bytes the files of Spark's batches send to ConfigMaps, against the budget of bytes.

    python -m benchmarks.kubernetes_files [--jobs 10] [--partitions 32] [--batches 20] [--budget 90000]

etcd and an API server on this machine, one server of Milepost. Each job writes what a stateful query does for a batch:
the offsets, one file of state for each partition, the commit, each under a temporary name first and then renamed. What
is two batches old is deleted meanwhile, as Spark's maintenance does. Each group of changes is one PUT of the journal's
last segment, so the more changes wait, the fewer bytes each costs.

Two cores cannot have ten jobs write a batch a second each, with the API server and etcd beside them. So by default the
budget is a tenth of what the service allows itself, and a tenth as many batches fit into it: then changes wait for each
other as they would in a cluster, and processor time limits nothing. A row tells the bytes sent for a batch, the share
of the whole budget that is if all jobs have one batch a second, and how many batches a second they had here.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

import httpx

from testbed.kubernetes.api import KubernetesApi
from testbed.server import ServerProcess

BUDGET = 900_000
SLOWER = 10
SIZES = (50, 300, 5000)
_TASKS = 4
"""So many tasks of a job run at the same time."""


class Job:
    """One query's checkpoint, written as its driver and executors do."""

    def __init__(self, http: httpx.AsyncClient, name: str, partitions: int, size: int) -> None:
        self._http = http
        self._root = f"/webhdfs/v1/jobs/{name}/checkpoint"
        self._partitions = partitions
        self._size = size

    async def batch(self, number: int) -> None:
        """Write all files of a batch, and delete those of the one before the last."""
        await self._write(f"offsets/{number}", 300)
        tasks = iter(range(self._partitions))

        async def some() -> None:
            for partition in tasks:
                await self._write(f"state/0/{partition}/{number}.delta", self._size)

        await asyncio.gather(*(some() for _ in range(_TASKS)), self._maintain(number - 2))
        await self._write(f"commits/{number}", 30)

    async def _maintain(self, old: int) -> None:
        if old >= 0:
            for path in (f"offsets/{old}", *(f"state/0/{each}/{old}.delta" for each in range(self._partitions))):
                await self._asked("DELETE", path, "DELETE")

    async def _write(self, path: str, size: int) -> None:
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/.{name}.{size:036d}.tmp"
        to = await self._asked("PUT", temporary, "CREATE", overwrite="true", noredirect="true")
        put = await self._http.put(to.json()["Location"], content=f"{path} ".encode().ljust(size, b"x")[:size])
        put.raise_for_status()
        target = f"{self._root.removeprefix('/webhdfs/v1')}/{path}"
        await self._asked("PUT", temporary, "RENAME", destination=target, renameoptions="OVERWRITE")

    async def _asked(self, method: str, path: str, op: str, **query: str) -> httpx.Response:
        answer = await self._http.request(method, f"{self._root}/{path}", params={"op": op, **query})
        answer.raise_for_status()
        return answer


async def measured(url: str, size: int, jobs: int, partitions: int, batches: int) -> tuple[float, float, float]:
    """Return for one batch of one job the bytes sent and the groups committed, and the batches a second of all jobs."""
    async with httpx.AsyncClient(base_url=url, timeout=60.0) as http:

        async def counted(what: str) -> float:
            metrics = (await http.get("/metrics")).text
            found = re.search(rf"^milepost_{what}(?:_total)? (\S+)", metrics, re.MULTILINE)
            assert found is not None, f"the server does not count {what}"
            return float(found[1])

        several = [Job(http, f"job-{size}-{number}", partitions, size) for number in range(jobs)]
        for number in range(2):
            await asyncio.gather(*(job.batch(number) for job in several))
        before = [await counted(what) for what in ("pointer_bytes_sent", "groups_committed")]
        began = time.monotonic()
        for number in range(2, 2 + batches):
            await asyncio.gather(*(job.batch(number) for job in several))
        rate = batches * jobs / (time.monotonic() - began)
        after = [await counted(what) for what in ("pointer_bytes_sent", "groups_committed")]
        sent, groups = ((one - other) / batches / jobs for one, other in zip(after, before, strict=True))
        return sent, groups, rate


def main() -> int:
    """Run it and print the table; the exit status."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--jobs", type=int, default=10)
    flags.add_argument("--partitions", type=int, default=32)
    flags.add_argument("--batches", type=int, default=20)
    flags.add_argument("--inline-below", type=int, default=64)
    flags.add_argument("--budget", type=int, default=BUDGET // SLOWER)
    options = flags.parse_args()
    print(f"{options.jobs} jobs, {options.partitions} partitions, inline below {options.inline_below}")
    print(f"{'bytes a file':>12}{'sent a batch':>14}{'groups':>8}{'of the budget':>15}{'batches/s':>11}")
    with tempfile.TemporaryDirectory() as directory, KubernetesApi(Path(directory)) as api:
        api.start()
        for size in SIZES:
            namespace = api.namespace(f"files-{size}")
            query = {"kubeconfig": str(api.service_account(namespace)), "bytes_per_second": str(options.budget)}
            url = f"kubernetes://{namespace}/milepost?{urlencode(query)}"
            (place := Path(directory) / namespace).mkdir()
            inline = ("--inline-below", str(options.inline_below))
            with ServerProcess(place, *inline, pointers=url) as server:
                server.start()
                sent, groups, rate = asyncio.run(
                    measured(server.url, size, options.jobs, options.partitions, options.batches)
                )
            share = sent * options.jobs / BUDGET
            print(f"{size:>12}{sent:>14,.0f}{groups:>8.1f}{share:>14.0%}{rate:>11.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
