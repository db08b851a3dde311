"""Plays many runs and writes a line for each into a file: ``python -m tests.spark.trials --rounds 300 --seed 1``.

A campaign that was cut goes on with the same command: runs whose line is there already are left out. What a run left
behind is deleted if all went well, and kept otherwise.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testbed.process import ProcessFailed
from tests.spark.supervise.jars import compile_into, jar_of
from tests.spark.trials.plan import ROUNDS, Plan, plan
from tests.spark.trials.run import Parts, Run
from tests.spark.under_test import java

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache"
SOURCES = Path(__file__).parent / "java"


def main() -> int:
    """Play what has not been played; 0 if all that is in the file went well."""
    asked = _arguments()
    directory = Path(asked.directory).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    results = Path(asked.results or directory / f"results-{asked.seed}.jsonl")
    runs = -(-asked.rounds // asked.per_run)
    known = _known(results)
    print(
        f"{runs} runs of {asked.per_run} rounds from seed {asked.seed} on; their results are in {results}", flush=True
    )
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # and all that was started ends
    own = Path(tempfile.mkdtemp(prefix=f"runs-{asked.seed}-", dir=directory))
    (own / "classes").mkdir()
    compile_into(own / "classes", SOURCES)
    jar = jar_of(own / "classes", own / "trial")
    with Parts(own, java.options(CACHE), jar) as parts:
        for seed in range(asked.seed, asked.seed + runs):
            if seed not in known:
                line = known[seed] = _line(plan(seed, asked.per_run), parts)
                with results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)
    if not any((own / "hidden").iterdir()):
        shutil.rmtree(own)  # no run has failed
    lines = [known[seed] for seed in range(asked.seed, asked.seed + runs)]
    good = [line for line in lines if line["verdict"] == "ok"]
    rounds = sum(len(line["rounds"]) for line in good)
    rows, refused = sum(line["rows"] for line in good), sum(line["refused"] for line in good)
    print(f"{len(good)} of {len(lines)} runs: {rounds} rounds, {rows} rows, none lost or doubled, {refused} refused")
    return 0 if len(good) == len(lines) else 1


def _line(plan: Plan, parts: Parts) -> dict[str, Any]:
    """What is told of a run, however it went."""
    run = Run(plan, parts)
    told: dict[str, Any] = {"seed": plan.seed, "plan": str(plan), "rounds": [str(each) for each in plan.rounds]}
    try:
        result = run.play()
    except (AssertionError, ProcessFailed, OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
        traceback.print_exc()
        print(f"seed {plan.seed} failed: {plan}", *run.times, f"kept: {run.hidden}, {run.data}", sep="\n", flush=True)
        return told | {"verdict": f"{type(error).__name__}: {str(error)[:500]}", "times": run.times}
    for place in (run.data, run.hidden):
        shutil.rmtree(place)
    return told | asdict(result) | {"verdict": "ok", "times": run.times}


def _known(results: Path) -> dict[int, dict[str, Any]]:
    """The lines that are there already; a run that failed is played again."""
    text = results.read_text() if results.exists() else ""
    lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return {line["seed"]: line for line in lines if line["verdict"] == "ok"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.trials", description="Play runs of faults at jobs.")
    parser.add_argument("--rounds", type=int, default=300, help="how many faults in all")
    parser.add_argument("--per-run", type=int, default=ROUNDS, help="how many faults a job goes through")
    parser.add_argument("--seed", type=int, default=1, help="the number of the first run; the others follow it")
    parser.add_argument("--results", default="", help="the file of results, one line a run")
    parser.add_argument("--directory", default=str(CACHE / "trials"), help="where all is kept; not below /tmp")
    return parser.parse_args()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    sys.exit(main())
