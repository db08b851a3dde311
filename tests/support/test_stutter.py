"""What runs under the stutter stands still for some time, goes on, and ends as it would by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

WAITS_UNTIL_IT_STOOD_STILL = """
import sys, time
end = time.monotonic() + 200.0
last = time.monotonic()
while (now := time.monotonic()) < end:
    if now - last > 0.4:
        sys.exit(7)
    last = now
    time.sleep(0.01)
"""


@pytest.mark.timeout(300)
def test_a_command_stands_still_and_its_end_is_told() -> None:
    started = (
        f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {WAITS_UNTIL_IT_STOOD_STILL!r}]))"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.stutter", sys.executable, "-c", started], timeout=250, check=False
    )
    assert ended.returncode == 7
