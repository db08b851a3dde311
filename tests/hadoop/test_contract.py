"""What Hadoop's contract suites find different between a job's files and those of a NameNode is what is written down.

The list is `differences.toml`, with the reason of each. It fails this test when a difference appears, and also when one
is gone: then its line goes as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib

import milepost
from milepost.core.checkpoint_location import checkpoint_location
from testbed.hadoop.hdfs import hdfs
from testbed.server import ServerProcess
from tests.hadoop.suites import End, compiled, run
from tests.support.servers.hdfs import alone

pytestmark = [pytest.mark.hadoop, pytest.mark.long]

DIFFERENCES = Path(__file__).with_name("differences.toml")
LEAST_PASSED = 300
"""So many tests pass on both sides at the least: fewer say that the suites did not run."""

Outcomes = tuple[str, str]
"""How a test ended at Milepost, and at a NameNode."""


def written_down() -> dict[str, Outcomes]:
    """The differences of which the reason is known."""
    found: dict[str, Outcomes] = {}
    for group in tomllib.loads(DIFFERENCES.read_text())["difference"]:
        assert group["why"]
        assert group["milepost"] != group["namenode"]
        for test in group["tests"]:
            assert test not in found, f"{test} is listed twice"
            found[test] = (group["milepost"], group["namenode"])
    return found


def at_milepost(classes: Path, directory: Path) -> dict[str, End]:
    """The suites in the tree of a job."""
    with ServerProcess(directory / "server") as server:
        server.start()
        with milepost.Client(server.url) as client, client.session(ttl=60, holder="tests") as session:
            store = session.store("suites")
            location = checkpoint_location([server.url], store.name, store.campaign().epoch)
            root = f"/jobs/{store.name}"
            return run(classes, directory, location.url.partition(root)[0], root, location.settings)


def at_a_namenode(classes: Path, directory: Path) -> dict[str, End]:
    """The same in a directory of HDFS, over WebHDFS."""
    with hdfs(directory / "hdfs", settings={"dfs.namenode.fs-limits.min-block-size": "1"}) as server:
        return run(classes, directory, f"webhdfs://{server.namenode.http_port.address}", "/jobs/suites", {})


def test_the_differences_to_a_namenode_are_those_that_are_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    classes = compiled(tmp_path / "classes")
    for name in ("milepost", "namenode"):
        (tmp_path / name).mkdir()
    ours = at_milepost(classes, tmp_path / "milepost")
    theirs = at_a_namenode(classes, tmp_path / "namenode")
    assert ours.keys() == theirs.keys()
    both = sum(ours[test].outcome == theirs[test].outcome == "passed" for test in ours)
    print(f"{len(ours)} tests; {both} pass on both sides, {_passed(ours)} at Milepost, {_passed(theirs)} at a NameNode")
    assert both >= LEAST_PASSED
    found = {
        test: (end.outcome, theirs[test].outcome) for test, end in ours.items() if end.outcome != theirs[test].outcome
    }
    expected = written_down()
    new = {test: (ours[test], theirs[test]) for test, ends in found.items() if expected.get(test) != ends}
    gone = sorted(expected.keys() - found.keys())
    assert (new, gone) == ({}, [])


def _passed(ends: dict[str, End]) -> int:
    return sum(end.outcome == "passed" for end in ends.values())
