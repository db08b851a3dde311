"""The S3 backend keeps blobs in a bucket of Amazon S3, or of a server that speaks its protocol."""

from milepost_backends.contract import Backend, BlobsSettings, BlobStore


def _blobs(url: str, _settings: BlobsSettings) -> BlobStore:
    from milepost_backends.s3.blobs import (
        S3Blobs,
    )  # imported here, since it takes half a second that servers without S3 save

    return S3Blobs(url)


BACKEND = Backend("s3://bucket/prefix", blobs=_blobs)
