"""The local backend keeps blobs as files below a directory."""

from pathlib import Path

from milepost_backends.contract import Backend, BlobsSettings, BlobStore, Misconfigured


def _blobs(url: str, _settings: BlobsSettings) -> BlobStore:
    from milepost_backends.local.blobs import LocalBlobs

    directory = url.partition(":")[2]
    if not directory:
        raise Misconfigured("an address of blobs in files must name a directory: file:DIR")
    return LocalBlobs(Path(directory))


BACKEND = Backend("file:DIR", blobs=_blobs)
