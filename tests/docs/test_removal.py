"""What docs/kubernetes.md says to run after ``helm uninstall`` leaves nothing, and makes room for a new journal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

import milepost
from testbed.kubernetes.programs import find_program
from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.contracts.places import Services
from tests.docs import pasted
from tests.docs.blocks import ROOT, blocks_of
from tests.support.servers import kubernetes, s3

pytestmark = pytest.mark.kubernetes

AWS = """#!{python}
import sys
from urllib.parse import urlsplit

import boto3

words, url = sys.argv[1:-1], urlsplit(sys.argv[-1])
assert words == ["s3", "rm", "--recursive"], words
bucket = boto3.resource("s3", endpoint_url={endpoint!r}).Bucket(url.netloc)
bucket.objects.filter(Prefix=url.path[1:]).delete()
"""
"""The one command of the AWS CLI that the page uses."""


def test_everything_is_removed_for_good(services: Services, tmp_path: Path) -> None:
    """A real API server and a real S3 server; the replica that made the objects is a process of this machine."""
    (block,) = (
        block
        for block in blocks_of(ROOT / "docs" / "kubernetes.md")
        if block.marks.get("tested by") == Path(__file__).relative_to(ROOT).as_posix()
    )
    site = kubernetes.site(kubernetes.shared_api(services))
    blobs = s3.fresh_url(tmp_path, services)
    prefix = blobs.partition("?")[0].removeprefix("s3://")
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "kubectl").symlink_to(find_program("kubectl"))
    (commands / "aws").write_text(AWS.format(python=sys.executable, endpoint=s3.shared(services).endpoint_url))
    (commands / "aws").chmod(0o755)
    text = block.text.replace("-n milepost ", f"-n {site.namespace} ").replace(
        "s3://my-bucket/PREFIX/", f"s3://{prefix}/"
    )
    assert text.count(site.namespace) == 3
    assert prefix in text

    with ServerProcess(tmp_path, *ALL_AS_BLOBS, pointers=site.url(**kubernetes.LONG), blobs=blobs) as server:
        with milepost.Client(server.start().url) as client, client.session() as session:
            session.store("removed").add_and_lock("latest", b"batch 7")
        server.stop()
        path = f"export PATH={shlex.quote(str(commands))}:$PATH\n"
        ran = pasted.run(path + text, tmp_path, KUBECONFIG=str(site.api.admin_kubeconfig))
        assert ran.returncode == 0, ran.stderr
        names = site.api.admin.ask("GET", f"/api/v1/namespaces/{site.namespace}/configmaps")["items"]
        assert [each["metadata"]["name"] for each in names if each["metadata"]["name"].startswith("milepost")] == []
        assert site.lease() is None
        with milepost.Client(server.start().url) as client:
            assert list(client.stores()) == []
