"""The figures of the rounds of faults, wherever a page tells them, are those of the recorded runs."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"
RUNS: list[dict[str, Any]] = [
    json.loads(line) for line in (DOCS / "trials-1.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_the_table_has_each_run_as_it_was_recorded() -> None:
    cells = re.findall(r"^\| (\d+ \|) [^|]+ (\|.*) \|$", (DOCS / "trials.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [f"{seed} {figures}" for seed, figures in cells] == [
        f"{run['seed']} | | {len(run['rounds'])} | {run['batches']} | {run['rows']} | {run['births']} | {run['epochs']}"
        f" | {run['denied'] or ''} | {max(run['gaps']):.0f}"
        for run in RUNS
    ]


def test_both_pages_tell_the_sums_of_the_runs() -> None:
    assert {run["verdict"] for run in RUNS} == {"ok"}
    rounds = f"{sum(len(run['rounds']) for run in RUNS):,}"
    batches, rows, denied = (f"{sum(run[name] for run in RUNS):,}" for name in ("batches", "rows", "denied"))
    on_executors = sum("2 executors" in run["plan"] for run in RUNS)
    trials, spark = (" ".join((DOCS / name).read_text(encoding="utf-8").split()) for name in ("trials.md", "spark.md"))
    assert (
        f"Runs {RUNS[0]['seed']} to {RUNS[-1]['seed']}: {rounds} rounds, {batches} batches, {rows} rows, "
        f"{on_executors} of the runs with tasks on two executors." in trials
    )
    assert f"{denied} requests were refused with 403" in trials
    assert f"[{rounds} rounds of faults](trials.md)" in spark
    assert f"seeds {RUNS[0]['seed']} to {RUNS[-1]['seed']}, ended with {rows} rows in {batches} batches" in spark
