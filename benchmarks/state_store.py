"""What managed state takes: commits, loading, and how often each byte is written; and the memory of state out of core.

    python -m benchmarks.state_store [--commits 1000] [--gibibytes 0]

Keys are 16 bytes and values 64 random ones, which no compression makes smaller; files lie in a temporary directory.
Seconds are those of the processor, all threads together, and of the clock. ``--gibibytes 5`` builds that much state in
RocksDB, in commits of 64 MiB with maintenance in between, opens it anew and reads some of it; told is the most memory
that the process ever had.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from milepost.state.store import FileStateStoreProvider, LocalFiles, MemoryEngine, ProviderSettings, StateStoreId
from milepost.state.store.engines.engine import EngineFactory
from milepost.state.store.engines.rocksdb import RocksDBEngines

_RANDOM = random.Random(1)


class CountedFiles(LocalFiles):
    """A directory, and the bytes that were written to it."""

    written = 0

    def create(self, name: str, content: bytes):  # type: ignore[no-untyped-def]
        """Create a file, and count its bytes."""
        self.written += len(content)
        return super().create(name, content)


@contextmanager
def provider_in(directory: Path, engines: EngineFactory) -> Iterator[tuple[FileStateStoreProvider, CountedFiles]]:
    """A provider of the state in a directory, that is maintained by hand."""
    files = CountedFiles(directory / "state")
    provider = FileStateStoreProvider(files, ProviderSettings(engines=engines, maintenance_interval=None))
    provider.init(StateStoreId(0, 0))
    yield provider, files
    provider.close()


class Watch:
    """Tells the seconds since it was made: of this process's threads on the processor, and of the clock."""

    def __init__(self) -> None:
        self._began = time.process_time(), time.perf_counter()

    def seconds(self) -> tuple[float, float]:
        """Return both."""
        return time.process_time() - self._began[0], time.perf_counter() - self._began[1]

    def __str__(self) -> str:
        return "{:.2f} s of the processor, {:.2f} s of the clock".format(*self.seconds())


def change(
    provider: FileStateStoreProvider, version: int, keys: range | list[int], value_bytes: int = 64
) -> tuple[float, float]:
    """Commit a new value for each of these keys, and return the seconds that the commit itself took."""
    store = provider.get_store(version)
    for key in keys:
        store.put(b"%016d" % key, _RANDOM.randbytes(value_bytes))
    watch = Watch()
    store.commit()
    return watch.seconds()


def commits(name: str, make: Callable[[Path], EngineFactory]) -> None:
    """Tell what commits of 20,000 changes take on 100,000 keys."""
    with tempfile.TemporaryDirectory() as place, provider_in(Path(place), make(Path(place))) as (provider, _):
        change(provider, 0, range(100_000))
        taken = [change(provider, version, _RANDOM.sample(range(100_000), 20_000)) for version in range(1, 12)]
        processor, clock = (statistics.median(one) for one in zip(*taken, strict=True))
        print(
            f"{name}: commit of 20,000 changes on 100,000 keys {processor:.2f} s of the processor, "
            f"{clock:.2f} s of the clock (medians of {len(taken)})"
        )


def load(name: str, make: Callable[[Path], EngineFactory]) -> None:
    """Tell what it takes to open a version of 1,000,000 keys, from a snapshot."""
    with tempfile.TemporaryDirectory() as place:
        with provider_in(Path(place), MemoryEngine) as (provider, _):
            for version in range(10):
                change(provider, version, range(version * 100_000, (version + 1) * 100_000))
            watch = Watch()
            provider.do_maintenance()
            print(f"merging 1,000,000 keys into a snapshot: {watch}")
        with provider_in(Path(place), make(Path(place))) as (provider, _):
            watch = Watch()
            store = provider.get_read_store(10)
            print(f"{name}: load of 1,000,000 keys {watch}")
            assert store.get(b"%016d" % 999_999) is not None
            store.release()


def amplification(count: int) -> None:
    """Tell how many bytes are written for each byte of a commit."""
    with tempfile.TemporaryDirectory() as place, provider_in(Path(place), MemoryEngine) as (provider, files):
        change(provider, 0, range(100_000))
        provider.do_maintenance()
        files.written = by_commits = 0
        for version in range(1, count + 1):
            before = files.written
            change(provider, version, _RANDOM.sample(range(100_000), 2000))
            by_commits += files.written - before
            provider.do_maintenance()
        kept = sum(info.size for info in files.list("0/0/default"))
        print(
            f"{count} commits of 2,000 changes on 100,000 keys: {by_commits / 1e6:.1f} MB of commits, "
            f"{files.written / 1e6:.1f} MB in all: {files.written / by_commits:.2f} bytes for each, "
            f"{kept / 1e6:.1f} MB kept"
        )


def out_of_core(gibibytes: float) -> None:
    """Tell the memory and the time that more state takes than fits into it."""
    keys_of_one = 64 * 1024  # of 1 KiB each
    rounds = round(gibibytes * 16)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        with provider_in(directory, RocksDBEngines(directory / "cache")) as (provider, files):
            watch = Watch()
            for version in range(rounds):
                change(provider, version, range(version * keys_of_one, (version + 1) * keys_of_one), 1008)
                provider.do_maintenance()
            print(f"{gibibytes} GiB built: {watch}; {files.written / 2**30:.1f} GiB written")
        print(f"most memory so far {_most_memory()} MiB")
        with provider_in(directory, RocksDBEngines(directory / "cache")) as (provider, _):
            watch = Watch()
            store = provider.get_read_store(rounds)
            print(f"opened anew: {watch}")
            for _ in range(20_000):
                assert store.get(b"%016d" % _RANDOM.randrange(rounds * keys_of_one)) is not None
            store.release()
        print(f"most memory in all {_most_memory()} MiB")


def _most_memory() -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def main() -> None:
    """Measure all, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1000, help="commits by which writing is measured")
    parser.add_argument("--gibibytes", type=float, default=0.0, help="state to build out of core")
    arguments = parser.parse_args()
    if arguments.gibibytes:
        out_of_core(arguments.gibibytes)
        return
    kinds: list[tuple[str, Callable[[Path], EngineFactory]]] = [
        ("heap", lambda _: MemoryEngine),
        ("RocksDB", lambda place: RocksDBEngines(place / "cache")),
    ]
    for name, make in kinds:
        commits(name, make)
        load(name, make)
    amplification(arguments.commits)


if __name__ == "__main__":
    main()
