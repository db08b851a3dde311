"""The S3 backend keeps blobs in a bucket of Amazon S3, or of a server that speaks its protocol."""

from milepost_backends.contract import Backend, BlobsSettings, BlobStore


def _blobs(url: str, _settings: BlobsSettings) -> BlobStore:
    # imported here, because this takes half a second, which servers without S3 save
    from milepost_backends.s3.blobs import S3Blobs

    return S3Blobs(url)


BACKEND = Backend("s3://bucket/prefix", blobs=_blobs)
