"""``tools/find-python`` trusts no name: it runs what it finds. The programs that lie are made up here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FIND_PYTHON = Path(__file__).parents[2] / "tools" / "find-python"
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


def find(path: Path, *versions: str) -> subprocess.CompletedProcess[str]:
    """Look for versions where the PATH begins with ``path`` and no other place holds a Python."""
    environment = {"PATH": f"{path}:/usr/bin:/bin", "HOME": str(path), "PYENV_ROOT": str(path / "pyenv")}
    return subprocess.run(
        [str(FIND_PYTHON), *versions], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def version_of(interpreter: str) -> str:
    command = [interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_a_shim_that_fails_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / f"python{RUNNING}", "echo 'not chosen' >&2; exit 127")
    program(tmp_path / f"pyenv/versions/{RUNNING}.0/bin/python", f'exec "{sys.executable}" "$@"')
    found = find(tmp_path, RUNNING)
    assert found.returncode == 0, found.stderr
    assert version_of(found.stdout.strip()) == RUNNING


def test_what_is_called_python3_is_taken_for_the_version_it_is(tmp_path: Path) -> None:
    program(tmp_path / "python3", f'exec "{sys.executable}" "$@"')
    found = find(tmp_path, "3.99", RUNNING)
    assert found.returncode == 0, found.stderr
    assert version_of(found.stdout.strip()) == RUNNING


def test_a_program_of_another_version_than_its_name_is_not_taken(tmp_path: Path) -> None:
    program(tmp_path / "python3.99", f'exec "{sys.executable}" "$@"')
    found = find(tmp_path, "3.99")
    assert found.returncode != 0
    assert found.stdout == ""
