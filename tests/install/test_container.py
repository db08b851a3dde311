"""The image's command runs as docs/install.md starts it."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

import milepost
from testbed.ports import Port
from testbed.process import Process
from tests.deploy import dockerfile
from tests.install.conftest import Dist, environment
from tests.install.page import PAGE
from tests.install.shells import leading


def test_the_container_serves_on_a_root_that_is_read_only(dist: Dist, tmp_path: Path) -> None:
    """No container engine is here: the server runs with the flags of ``docker run``, and may write to its volume."""
    if os.geteuid() != 0:
        pytest.skip("a read-only root takes root")
    (line,) = re.findall(r"^docker run .*?[^\\]\n", PAGE, re.MULTILINE | re.DOTALL)
    words = shlex.split(line.replace("\\\n", " "))
    assert {"--read-only", "no-new-privileges"} <= set(words)
    (image,) = (number for number, word in enumerate(words) if word.startswith("milepost:"))
    assert words[image] == f"milepost:{milepost.__version__}"
    assert words[words.index("--volume") + 1].endswith(f":{dockerfile.last('WORKDIR')}")
    commands = environment(dist, tmp_path / "environment", "milepost-server-core")
    tokens, data = tmp_path / "tokens", tmp_path / "data"
    tokens.write_text("me 0123456789abcdef\n")
    data.mkdir()
    apart = 'mount --bind "$1" "$1" && mount -o remount,bind,ro / && cd "$1" && shift && exec "$@"'
    port = Port()
    changed = {"7070": str(port.number), "0.0.0.0": "127.0.0.1", "/etc/milepost/tokens": str(tokens)}
    flags = words[image + 1 :]
    for old, new in changed.items():
        flags = [flag.replace(old, new) for flag in flags]
    python = [str(commands / "python"), *dockerfile.entry_point()[1:]]
    command = ["unshare", "--mount", "--", "sh", "-c", apart, "sh", str(data), *python, *flags]
    variables = {**dist.variables, "PYTHONDONTWRITEBYTECODE": "1"}
    with Process("container", command, log_path=tmp_path / "log", environment=variables) as server:
        server.start(leading(port))
        with pytest.raises(OSError, match="Read-only"):
            (Path(f"/proc/{server.pid}/root") / str(tmp_path)[1:] / "elsewhere").touch()
        assert server.stop() == 0
    assert (data / "milepost-data").is_dir()
