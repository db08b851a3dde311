"""What a micro-batch takes with the checkpoint in Milepost, and with it in a local directory, in HDFS and in S3.

    python -m benchmarks.locations [--full] [--case stateless …] [--place local …] [--rounds 30] [--warming 10]

All queries run in one Spark, one at a time: in each round every place gets the same file of input, in another order
each time, so that what slows the machine down slows all of them. Told is the time of whole batches as Spark measures
it (``triggerExecution``), against the local directory and, for the replicated Milepost, against HDFS. The queries put
nothing out, so a batch writes nothing but its checkpoint; with a real output all ratios are nearer to 1.

Of Milepost the requests and commits of a batch are told as well, in rounds of their own: they do not depend on how busy
the machine is.

The case ``take-over`` tells how long after its TTL the session of a killed driver is over, and what a driver that goes
on with 300 MB of state takes until its first batch is done. With ``--apart`` all servers have one half of the
processors, and that driver has the other, as if it had a machine of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.locations.cases import CASES, Case
from benchmarks.locations.contenders import Contender, spark_session, start
from benchmarks.locations.figures import alone, compared
from benchmarks.locations.places import EMBEDDED, HDFS, LOCAL, PLACES, REPLICATED, Place
from benchmarks.locations.takeover import apart, epochs, taken_over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAKE_OVER = "take-over"
_SMALL = ["stateless", "aggregation-4", "state-1MB-rocksdb"]
_SMALL_PLACES = [LOCAL, EMBEDDED, REPLICATED, HDFS]
_COUNTED_ROUNDS = 5
_BASES = {EMBEDDED: [LOCAL], REPLICATED: [LOCAL, HDFS], HDFS: [LOCAL]}


def measured(
    spark: SparkSession, case: Case, places: Mapping[str, Place], directory: Path, rounds: int, warming: int
) -> dict[str, Any]:
    """Run a case in all places, and return what is told of it."""
    order = random.Random(1)
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for name, place in places.items():
            inputs = directory / "in" / case.name / name
            checkpoint = stack.enter_context(place.checkpoint(spark, case.name))
            query = start(spark, case, inputs, checkpoint)
            stack.callback(query.stop)
            contenders[name] = Contender(place, inputs, query)
        for number in range(warming + rounds):
            content = case.lines(number)
            for contender in order.sample(list(contenders.values()), len(contenders)):
                took = contender.run(content, number)
                if number >= warming:
                    contender.took.append(took)
        counted = {name: Counter[str]() for name in contenders}
        for number in range(warming + rounds, warming + rounds + _COUNTED_ROUNDS):
            for name, contender in contenders.items():
                counted[name] += contender.counted(case.lines(number), number)
    told: dict[str, Any] = {"case": case.name, "rounds": rounds}
    for name, contender in contenders.items():
        bases = [base for base in _BASES.get(name, [LOCAL]) if base in contenders and base != name]
        mine = contender.took
        told[name] = {f"against {base}": compared(mine, contenders[base].took) for base in bases} or alone(mine)
        if counted[name]:
            told[name]["a batch"] = {key: value / _COUNTED_ROUNDS for key, value in sorted(counted[name].items())}
    return told


def main() -> None:
    """Run it, and print a line of JSON for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all cases in all places, 60 rounds each")
    parser.add_argument("--case", choices=[*CASES, TAKE_OVER], action="append")
    parser.add_argument("--place", choices=list(PLACES), action="append")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--warming", type=int, default=15, help="rounds before those that count")
    parser.add_argument("--apart", action="store_true", help="no processor is shared by servers and take-overs")
    parser.add_argument("--directory", type=Path, help="where everything is kept; by default one that is removed")
    options = parser.parse_args()
    cases = options.case or ([*CASES, TAKE_OVER] if options.full else _SMALL)
    names = options.place or (list(PLACES) if options.full else _SMALL_PLACES)
    with ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if options.apart:
            apart()
        for name in names:
            (directory / name).mkdir(parents=True)
        places = {name: stack.enter_context(PLACES[name](directory / name)) for name in names}
        spark = spark_session(places)
        stack.callback(spark.stop)
        for name in cases:
            if name == TAKE_OVER:
                rounds = min(20, options.rounds or 20)
                told = [epochs(places, min(5, rounds)), taken_over(spark, places, directory, rounds)]
            else:
                rounds = options.rounds or (60 if options.full else 30)
                told = [measured(spark, CASES[name], places, directory, rounds, options.warming)]
            for each in told:
                print(json.dumps(each), flush=True)


if __name__ == "__main__":
    main()
