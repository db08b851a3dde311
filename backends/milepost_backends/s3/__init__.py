"""The S3 backend keeps blobs in a bucket of Amazon S3, or of a server that speaks its protocol."""

from milepost_backends.contract import Backend, BlobsSettings, BlobStore


def _blobs(url: str, _settings: BlobsSettings) -> BlobStore:
    from milepost_backends.s3.blobs import S3Blobs  # the import takes half a second, so only servers with S3 do it

    return S3Blobs(url)


BACKEND = Backend("s3://bucket/prefix", blobs=_blobs)
