"""``milepost step-down`` where the election is a Lease of a real Kubernetes API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.contracts.places import Services
from tests.support.servers import kubernetes
from tests.system.command.conftest import Command

pytestmark = pytest.mark.kubernetes


def test_another_replica_leads_and_the_lease_names_it(command: Command, services: Services, tmp_path: Path) -> None:
    """The lease lasts a minute: had it to run out first, this would take that long."""
    site = kubernetes.site(kubernetes.shared_api(services))
    pointers, blobs = site.url(**kubernetes.LONG), f"file:{tmp_path}/blobs"
    with (
        ServerProcess(tmp_path / "first", pointers=pointers, blobs=blobs) as first,
        ServerProcess(tmp_path / "second", pointers=pointers, blobs=blobs) as second,
    ):
        first.start()
        second.start(until="/readyz")
        for before, after in ((first, second), (second, first)):
            ended = command("step-down", "--json", "--url", f"{first.url},{second.url}")
            assert ended.returncode == 0, ended.stderr
            told = json.loads(ended.stdout)
            assert (told["before"], told["leader"]) == (before.url, after.url)
            assert told["seconds"] < float(kubernetes.LONG["lease_duration"])
            lease = site.lease()
            assert lease is not None
            assert after.url in json.dumps(lease)


def test_one_alone_leads_again(command: Command, services: Services, tmp_path: Path) -> None:
    site = kubernetes.site(kubernetes.shared_api(services))
    with ServerProcess(tmp_path, pointers=site.url(**kubernetes.LONG)) as alone:
        alone.start()
        ended = command("step-down", "--url", alone.url)
        assert ended.returncode == 0, ended.stderr
        assert f"{alone.url} leads again, since no other replica took the lead in time" in ended.stdout
