"""The HDFS backend keeps blobs as files in a directory of HDFS."""

from milepost_backends.contract import Backend, BlobsSettings, BlobStore


def _blobs(url: str, settings: BlobsSettings) -> BlobStore:
    from milepost_backends.hdfs.blobs import HdfsBlobs

    return HdfsBlobs(url, deadline=settings.exchange_seconds)


BACKEND = Backend("hdfs://host/path", blobs=_blobs)
