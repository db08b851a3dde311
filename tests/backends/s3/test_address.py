"""What s3:// URLs say, and what is refused."""

from __future__ import annotations

import pytest

from milepost_backends.contract import Misconfigured
from milepost_backends.s3.address import S3Address, parse_address


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket", S3Address("bucket")),
        ("s3://bucket/", S3Address("bucket")),
        ("s3://my.bucket-1/a/b_c", S3Address("my.bucket-1", "a/b_c/")),
        ("s3://bucket/a/", S3Address("bucket", "a/")),
        (
            "s3://bucket/a?endpoint_url=http://127.0.0.1:9000/&region=eu-west-1&addressing_style=path",
            S3Address("bucket", "a/", "http://127.0.0.1:9000", "eu-west-1", "path"),
        ),
        ("s3://bucket?endpoint_url=https%3A%2F%2Fs3.local", S3Address("bucket", "", "https://s3.local")),
        ("s3://bucket?addressing_style=virtual", S3Address("bucket", addressing_style="virtual")),
    ],
)
def test_an_address_says_bucket_prefix_and_options(url: str, expected: S3Address) -> None:
    assert parse_address(url) == expected


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("s3:bucket", "not the name of a bucket"),
        ("s3://", "not the name of a bucket"),
        ("s3://ab", "not the name of a bucket"),
        ("s3://bucket:80/a", "not the name of a bucket"),
        ("s3://bucket/a b", "the prefix"),
        ("s3://bucket/../a", "the prefix"),
        ("s3://bucket/a//b", "the prefix"),
        ("s3://bucket/" + "a" * 101, "at most 100"),
        ("s3://bucket/a#b", "#"),
        ("s3://bucket?endpoint=http://x", "use endpoint_url, region, addressing_style"),
        ("s3://bucket?region=", "needs a value"),
        ("s3://bucket?region=a&region=b", "twice"),
        ("s3://bucket?region=a/b", "not the name of a region"),
        ("s3://bucket?addressing_style=auto", "path or virtual"),
        ("s3://bucket?endpoint_url=127.0.0.1:9000", "http or https"),
        ("s3://bucket?endpoint_url=ftp://host", "http or https"),
        ("s3://bucket?endpoint_url=http://", "http or https"),
        ("file:///a", "must begin with s3://"),
    ],
)
def test_what_means_nothing_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        parse_address(url)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    "url", ["s3://key:hunter2@bucket/a", "s3://hunter2@bucket", "s3://bucket?endpoint_url=http://key:hunter2@host"]
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        parse_address(url)
    assert "credentials" in str(refused.value)
    assert "hunter2" not in str(refused.value)
