"""``python -m tests.corrupt``: run the cases, print what became of each kind of thing, and fail for any that passed in
silence.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.contracts.places import Services
from tests.corrupt.cases import STORES, cases
from tests.corrupt.table import Row, table, update
from tests.corrupt.trial import Case, Outcome, try_out

CASE_SECONDS = 120.0


def main() -> int:
    flags = argparse.ArgumentParser(prog="python -m tests.corrupt", description=__doc__)
    flags.add_argument("--on", action="append", help="only this store (several times for several)")
    flags.add_argument("--seed", type=int, default=1, help="which places are damaged; the same seed, the same places")
    flags.add_argument("--rounds", type=int, default=2, help="so many seeds, one after the other")
    flags.add_argument("--only", help="only cases with this in their name")
    flags.add_argument("--table", type=Path, help="write the table of docs/damage.md there")
    flags.add_argument("--verbose", action="store_true", help="a line per case, and what was said")
    given = flags.parse_args()
    logging.getLogger().addHandler(logging.NullHandler())
    stores = [store for store in STORES if not given.on or store.name in given.on]
    seeds = range(given.seed, given.seed + given.rounds)
    chosen = [case for seed in seeds for case in cases(stores, seed) if not given.only or given.only in str(case)]
    print(f"{len(chosen)} cases, seeds from {given.seed}", flush=True)
    rows: list[Row] = []
    failed: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place, ExitStack() as ends:
        services = Services(ends, Path(place))
        for number, case in enumerate(chosen):
            directory = Path(place) / f"case-{number}"
            directory.mkdir()
            outcome = _run(case, directory, services)
            if isinstance(outcome, str):
                failed.append(f"{case}: {outcome}")
                print(f"FAILED {failed[-1]}", flush=True)
                continue
            rows.append(Row(case, outcome))
            if given.verbose:
                print(f"{case}: {outcome.end.name}", *outcome.said, sep="\n    ", flush=True)
    print(table(rows))
    if given.table and not failed:
        given.table.write_text(update(given.table.read_text(), rows))
    ends_counted = {end: sum(row.outcome.end is end for row in rows) for end in {row.outcome.end for row in rows}}
    for end, count in sorted(ends_counted.items(), key=lambda counted: counted[0].name):
        print(f"{count:5} {end.name.lower()}: {end.value}")
    print(f"{len(chosen)} cases in {time.monotonic() - began:.0f} s, seeds from {given.seed}; {len(failed)} failed")
    for line in failed:
        print(f"FAILED {line}", file=sys.stderr)
    return 1 if failed else 0


def _run(case: Case, directory: Path, services: Services) -> Outcome | str:
    async def bounded() -> Outcome:
        async with asyncio.timeout(CASE_SECONDS):
            return await try_out(case, directory, services)

    try:
        return asyncio.run(bounded())
    except Exception as error:  # noqa: BLE001 - whatever it is, this case failed, and the others are to be run
        return repr(error)


if __name__ == "__main__":
    sys.exit(main())
