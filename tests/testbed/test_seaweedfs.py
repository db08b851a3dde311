"""SeaweedFS as a part: starts, keeps its buckets, and knows its keys."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from testbed.seaweedfs import NO_RIGHTS, SeaweedFS


def test_it_keeps_its_buckets_and_its_port(tmp_path: Path) -> None:
    with SeaweedFS(tmp_path) as server, closing(server.client()) as client:
        server.start()
        server.make_bucket("kept")
        client.put_object(Bucket="kept", Key="a/b", Body=b"value")
        server.stop()
        with pytest.raises(EndpointConnectionError):
            client.head_bucket(Bucket="kept")
        server.start()
        assert client.get_object(Bucket="kept", Key="a/b")["Body"].read() == b"value"
        client.put_object(Bucket="kept", Key="a/c", Body=b"value")
        with closing(server.client(NO_RIGHTS)) as stranger, pytest.raises(ClientError, match="403"):
            stranger.head_bucket(Bucket="kept")
        with pytest.raises(ClientError, match="404"):
            client.head_bucket(Bucket="never-made")
    assert not server.process.running
    assert (tmp_path / "weed.log").stat().st_size > 0


def test_its_url_names_bucket_prefix_and_endpoint(tmp_path: Path) -> None:
    with SeaweedFS(tmp_path) as server:
        parts = urlsplit(server.url("bucket", "a/b"))
        assert (parts.scheme, parts.netloc, parts.path) == ("s3", "bucket", "/a/b")
        assert parse_qs(parts.query)["endpoint_url"] == [server.endpoint_url]
        before = urlsplit(server.url("bucket", endpoint_url="http://127.0.0.1:1"))
        assert before.path == ""
        assert parse_qs(before.query)["endpoint_url"] == ["http://127.0.0.1:1"]
