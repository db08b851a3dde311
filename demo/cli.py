"""How a demo begins and ends as a program, whichever it is."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from demo.processes import DemoFailed
from demo.report.progress import Progress


def run_demo(run: Callable[[Progress], list[str]]) -> int:
    """Run it, and say what was wrong; the exit status. SIGTERM ends it in order, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _end)
    progress = Progress()
    try:
        wrong = run(progress)
    except KeyboardInterrupt:
        progress.say("interrupted")
        return 128 + signal.SIGINT
    except DemoFailed as failure:
        progress.say(f"FAILED: {failure}")
        return 1
    for complaint in wrong:
        progress.say(f"WRONG: {complaint}")
    return 1 if wrong else 0


def clear(output: Path, names: Sequence[str]) -> None:
    """Remove what an earlier demo left, and nothing else."""
    output.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = output / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
