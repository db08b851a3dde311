"""The node as a part: what it starts is gone after it, also when its owner was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from parts.node import kernel, registry
from parts.node.node import Node
from parts.node.remains import inhabitants, mounts
from parts.server import ROOT
from tests.node.conftest import require_node

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

_OWNER = """
import json, sys, time
from pathlib import Path
from parts.node.node import Node
with Node(Path(sys.argv[1])).start() as node:
    print(json.dumps(str(node.network.path)), flush=True)
    time.sleep(600)
"""


def test_nothing_is_left_of_a_node(tmp_path: Path) -> None:
    require_node()
    before = kernel.settings()
    with Node(tmp_path / "node").start() as node:
        network = node.network.path
        space = (network.stat().st_dev, network.stat().st_ino)
        assert len(inhabitants([space])) >= 8
    assert inhabitants([space]) == []
    assert not network.exists()
    assert mounts(tmp_path) == []
    if not list(Path("/run/milepost-nodes").glob("[!.]*")):
        assert kernel.settings() == before


def test_what_a_killed_owner_left_is_removed(tmp_path: Path) -> None:
    require_node()
    command = [sys.executable, "-c", _OWNER, str(tmp_path / "node")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        network = Path(json.loads(owner.stdout.readline()))
        status = network.stat()
        os.kill(owner.pid, signal.SIGKILL)
    removed = registry.remove_abandoned()
    assert str(tmp_path / "node") in [note.directory for note in removed]
    assert inhabitants([(status.st_dev, status.st_ino)]) == []
    assert not network.exists()
    assert mounts(tmp_path) == []
