"""The oldest PySpark that is supported, and the one that is installed here, write state and read it, live and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from testbed.server import ServerProcess

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[3]
OLDEST = "4.0.0"
PROGRAM = Path(__file__).parent / "program.py"
RUN_SECONDS = 400.0
INSTALL_SECONDS = 900.0


@pytest.fixture(scope="module", params=["oldest", "installed"])
def python(request: pytest.FixtureRequest) -> Path:
    """An interpreter that has this PySpark, and the SDK as it is here. It is made once, and kept in ``.cache``."""
    if request.param == "installed":
        return Path(sys.executable)
    place = ROOT / ".cache" / f"pyspark-{OLDEST}"
    interpreter = place / "bin" / "python"
    if not (place / "ready").exists():
        uv = str(ROOT / "tools" / "uv")
        for command in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)],
            [
                uv,
                "pip",
                "install",
                "--quiet",
                "--python",
                str(interpreter),
                f"pyspark=={OLDEST}",
                "-e",
                "client[spark]",
            ],
        ):
            subprocess.run(command, cwd=ROOT, check=True, timeout=INSTALL_SECONDS)
        (place / "ready").touch()
    return interpreter


def ran(python: Path, *arguments: str) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [python, PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        env={**environment, "LC_ALL": "C.UTF-8"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_state_is_written_and_read_by_who_leads_nothing(service: ServerProcess, python: Path, tmp_path: Path) -> None:
    arguments = (service.url, f"job-{uuid.uuid4().hex[:12]}", str(tmp_path), "RocksDBStateStoreProvider")
    written = ran(python, "write", *arguments)
    assert written["towns"] == ["Oslo", "Zürich", "東京"]
    assert written["version"] == OLDEST or python == Path(sys.executable)
    found = ran(python, "read", *arguments)
    counts = {"Zürich": 3, "東京": 2, "Oslo": 1}
    for where in ("live", "snapshot"):
        assert found[f"{where} zähler"] == counts
        assert found[f"{where} prüfung"] == counts
        assert found[f"{where} operators"] == ["stateStoreSave"]
