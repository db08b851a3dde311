"""containerd as a part of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.node.runtime import Runtime
from testbed.process import ProcessFailed


def test_a_directory_whose_sockets_have_too_long_paths_is_refused(tmp_path: Path) -> None:
    """containerd itself ends without a word of the length."""
    with pytest.raises(ProcessFailed, match="a path of 106 bytes is the longest for a socket, but not"):
        Runtime(tmp_path / ("long" * 30)).prepare()
    assert list(tmp_path.iterdir()) == []
