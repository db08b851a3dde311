"""Cells that speak TLS, and want certificates of their clients, ask each other for what the console shows."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx

from testbed.server import ServerProcess
from tests.support.servers.certificates import Certificates
from tests.wire.support.api import problem


def test_cells_show_each_other_their_certificates(tmp_path: Path, certificates: Certificates) -> None:
    listed = tmp_path / "list"
    cells = {name: ServerProcess(tmp_path / name, tls=certificates.trusting()) for name in ("a", "b")}
    listed.write_text("".join(f"{name}={server.url}\n" for name, server in cells.items()))
    with ExitStack() as running:
        for name, server in cells.items():
            server.directory.mkdir()
            own = ("--cell", name, "--cells", "a,b", "--cell-addresses", f"@{listed}")
            server.flags = (*own, *certificates.demanding)
            running.enter_context(server).start()
        path = f"{cells['a'].url}/v1/cells/b/status"
        found = httpx.get(path, verify=certificates.trusting(shown=True), timeout=60.0, trust_env=False)
        assert (found.status_code, found.json()["cell"], found.json()["leader"]) == (200, "b", cells["b"].url)
        stranger = httpx.get(path, verify=certificates.trusting(), timeout=60.0, trust_env=False)
        assert "certificate" in problem(stranger, 403, "forbidden")["detail"]
