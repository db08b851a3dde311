"""Managed state without what ``milepost[state]`` installs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["stateful", "read_state", "state_reader"])
def test_what_is_missing_is_named_with_its_extra(name: str) -> None:
    program = (
        f"import sys; sys.modules['msgpack'] = None; from milepost.spark import lead; from milepost.spark import {name}"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 1
    needs = f"ModuleNotFoundError: milepost.spark.{name} needs msgpack: pip install 'milepost[spark,state]'"
    assert needs in ran.stderr
