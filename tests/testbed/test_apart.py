"""What a program sees that runs as if on a machine of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import apart as apart_module
from testbed.apart import apart
from testbed.commands import run


def test_a_clone_of_the_project_in_a_hidden_directory_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, own = tmp_path / "project", tmp_path / "project" / "output" / "own"
    own.mkdir(parents=True)
    for file in (project / "program", project / "output" / "of others", own / "mine", tmp_path / "elsewhere"):
        file.touch()
    monkeypatch.setattr(apart_module, "_PROJECT", project)
    seen = run([*apart(own, [tmp_path, project / "output"]), "find", str(tmp_path), "-type", "f"])
    assert set(seen.split()) == {str(project / "program"), str(own / "mine")}
