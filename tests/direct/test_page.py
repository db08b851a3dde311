"""The lines of docs/rest.md by which bytes pass the service by work on a leader, and on a follower."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.direct.conftest import Way
from tests.docs import pasted
from tests.docs.blocks import ROOT, blocks_of


@pytest.fixture
def follower(server: ServerProcess, tmp_path: Path) -> Iterator[ServerProcess]:
    """Another replica of the one that leads."""
    with ServerProcess(tmp_path, pointers=server.pointers, blobs=server.blobs) as process:
        yield process.start(until="/readyz")


@pytest.mark.parametrize("role", ["server", "follower"])
@pytest.mark.parametrize("program", pasted.PROGRAMS)
def test_bytes_pass_the_service_by(
    request: pytest.FixtureRequest, way: Way, tmp_path: Path, role: str, program: str
) -> None:
    asked: ServerProcess = request.getfixturevalue(role)
    first, direct = (block for block in blocks_of(ROOT / "docs" / "rest.md") if block.language == "sh")
    beginning, _, _ = first.text.partition("curl -LsS --fail-with-body -X POST $M/sessions/$ID/keepalive")
    ran = pasted.run(pasted.at(beginning + direct.text, asked.url), tmp_path, program)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert ran.stdout.endswith("batch 9")
    assert way.taken() == ["PUT"]
