"""Find the backend behind the scheme of an address: one of this distribution, or one that another distribution adds.

A distribution adds a backend by an entry point of the group `milepost.backends`. The entry point's name is the scheme,
and the object it points to is a `Backend`. A backend is imported when an address asks for it, not before.
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
"""These packages have a ``BACKEND`` each. A scheme that is listed here is never taken from an entry point."""


def make_pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    """Return the pointer store at ``url`` and the election beside it, not open yet.

    Raises `Misconfigured` for a URL that is not valid, or whose scheme has no pointer store.
    """
    backend = _backend(url)
    if backend is None or backend.pointers is None:
        known = [each.example for each in _all() if each.pointers is not None]
        raise Misconfigured(f"there is no pointer store for the scheme {_scheme(url)!r}; use {_listed(known)}")
    return backend.pointers(url, settings)


def make_blobs(url: str, settings: BlobsSettings) -> BlobStore:
    """Return the blob store at ``url``, not open yet.

    Raises `Misconfigured` for a URL that is not valid, or whose scheme has no blob store.
    """
    backend = _backend(url)
    if backend is None or backend.blobs is None:
        known = [each.example for each in _all() if each.blobs is not None]
        raise Misconfigured(f"there is no blob store for the scheme {_scheme(url)!r}; use {_listed(known)}")
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
            raise Misconfigured(f"cannot load the backend {scheme!r} ({point.value}): {error}") from error
        if not isinstance(backend, Backend):
            raise Misconfigured(f"the backend {scheme!r} ({point.value}) is not a backends.contract.Backend")
        return backend
    return None


def _built_in(package: str) -> Backend:
    backend = import_module(package).BACKEND
    assert isinstance(backend, Backend)
    return backend


def _all() -> Iterator[Backend]:
    """Yield every backend that can be loaded, each once."""
    for package in dict.fromkeys(_BUILT_IN.values()):
        yield _built_in(package)
    for name in {point.name for point in entry_points(group=GROUP)} - _BUILT_IN.keys():
        with suppress(Misconfigured):  # a broken backend is reported when an address asks for it
            if (backend := _backend(f"{name}:")) is not None:
                yield backend


def _listed(examples: list[str]) -> str:
    return " or ".join([", ".join(examples[:-1]), examples[-1]])
