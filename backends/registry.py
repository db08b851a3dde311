"""The backends by the schemes of their addresses: those of this distribution, and those that others add.

A distribution adds one by an entry point of the group `milepost.backends`: its name is the scheme, and what it names is
a `Backend`. Each is imported when an address asks for it, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

from backends.contract import Backend, BlobsSettings, BlobStore, Election, Misconfigured, PointersSettings, PointerStore

GROUP: Final = "milepost.backends"

_BUILT_IN: Final = {
    "embedded": "backends.embedded",
    "zookeeper": "backends.zookeeper",
    "zookeeper+tls": "backends.zookeeper",
    "kubernetes": "backends.kubernetes",
    "file": "backends.local",
    "s3": "backends.s3",
    "hdfs": "backends.hdfs",
}
"""The packages whose ``BACKEND`` is meant. A scheme that stands here is not taken from anywhere else."""


def make_pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    """Return the pointer store at ``url`` and the election beside it, not open yet.

    Raises `Misconfigured` for a URL that means nothing, or whose scheme has no pointers.
    """
    backend = _backend(url)
    if backend is None or backend.pointers is None:
        known = [each.example for each in _all() if each.pointers is not None]
        raise Misconfigured(f"pointers of the kind {_scheme(url)!r} are not known; known are {_listed(known)}")
    return backend.pointers(url, settings)


def make_blobs(url: str, settings: BlobsSettings) -> BlobStore:
    """Return the blob store at ``url``, not open yet.

    Raises `Misconfigured` for a URL that means nothing, or whose scheme has no blobs.
    """
    backend = _backend(url)
    if backend is None or backend.blobs is None:
        known = [each.example for each in _all() if each.blobs is not None]
        raise Misconfigured(f"blobs of the kind {_scheme(url)!r} are not known; known are {_listed(known)}")
    return backend.blobs(url, settings)


def _scheme(url: str) -> str:
    return url.partition(":")[0]


def _backend(url: str) -> Backend | None:
    scheme = _scheme(url)
    if scheme in _BUILT_IN:
        return _built_in(_BUILT_IN[scheme])
    for point in entry_points(group=GROUP, name=scheme):
        try:
            backend = point.load()
        except (ImportError, AttributeError) as error:
            raise Misconfigured(f"the backend {scheme!r}, which is {point.value}, cannot be loaded: {error}") from error
        if not isinstance(backend, Backend):
            raise Misconfigured(f"the backend {scheme!r}, which is {point.value}, is no backends.contract.Backend")
        return backend
    return None


def _built_in(package: str) -> Backend:
    backend = import_module(package).BACKEND
    assert isinstance(backend, Backend)
    return backend


def _all() -> Iterator[Backend]:
    """Give every backend that can be loaded, each once."""
    for package in dict.fromkeys(_BUILT_IN.values()):
        yield _built_in(package)
    for name in {point.name for point in entry_points(group=GROUP)} - _BUILT_IN.keys():
        with suppress(Misconfigured):  # what is broken is named to who asks for it
            if (backend := _backend(f"{name}:")) is not None:
                yield backend


def _listed(examples: list[str]) -> str:
    return " and ".join([", ".join(examples[:-1]), examples[-1]])
