"""Blobs on S3, and on servers that speak its protocol."""

from backends.contract import Backend, BlobsSettings, BlobStore


def _blobs(url: str, _settings: BlobsSettings) -> BlobStore:
    from backends.s3.blobs import S3Blobs  # takes half a second, which servers without it are spared

    return S3Blobs(url)


BACKEND = Backend("s3://bucket/prefix", blobs=_blobs)
