"""Finds the backend for the scheme of an address: one of this distribution, or one that another distribution adds.

A distribution adds a backend by an entry point of the group `milepost.backends`. The entry point's name is the scheme,
and the object it points to is a `Backend`. A backend is imported only when an address has its scheme.

A built-in backend that needs further libraries has an extra of its name, which installs them. If they are missing, the
error names the extra to install.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, metadata
from typing import Final

from milepost_backends.contract import (
    Accounts,
    Backend,
    BackendError,
    BlobsSettings,
    BlobStore,
    Election,
    Misconfigured,
    PointersSettings,
    PointerStore,
)

GROUP: Final = "milepost.backends"

_BUILT_IN: Final = {
    "embedded": "milepost_backends.embedded",
    "zookeeper": "milepost_backends.zookeeper",
    "zookeeper+tls": "milepost_backends.zookeeper",
    "kubernetes": "milepost_backends.kubernetes",
    "file": "milepost_backends.local",
    "s3": "milepost_backends.s3",
    "hdfs": "milepost_backends.hdfs",
}
"""The packages of this distribution's own backends, by scheme. An entry point cannot replace one of these."""

_DISTRIBUTION: Final = "milepost-server-core"


def make_pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    """Return the pointer store at ``url`` and the election beside it, both not open yet.

    Raises `Misconfigured` if ``url`` is not valid, or no pointer store has its scheme.
    """
    backend = _backend(url)
    if backend is None or backend.pointers is None:
        known = [each.example for each in _all() if each.pointers is not None]
        raise Misconfigured(f"there is no pointer store for the scheme {_scheme(url)!r}; use {_listed(known)}")
    with _faults_named(url):
        pointers, election = backend.pointers(url, settings)
    return pointers, election


def make_blobs(url: str, settings: BlobsSettings) -> BlobStore:
    """Return the blob store at ``url``, not open yet.

    Raises `Misconfigured` if ``url`` is not valid, or no blob store has its scheme.
    """
    backend = _backend(url)
    if backend is None or backend.blobs is None:
        known = [each.example for each in _all() if each.blobs is not None]
        raise Misconfigured(f"there is no blob store for the scheme {_scheme(url)!r}; use {_listed(known)}")
    with _faults_named(url):
        made = backend.blobs(url, settings)
        if made is None:
            raise TypeError("it made no blob store")
    return made


def make_service_accounts(pointers: str, audience: str) -> Accounts:
    """Return the ServiceAccounts of a Kubernetes cluster, for tokens of this ``audience``.

    It is the cluster at the address ``pointers`` if that is one of Kubernetes, or else the one that this process runs
    in. Raises `Misconfigured`.
    """
    url = pointers if _scheme(pointers) == "kubernetes" else "kubernetes:///"
    backend = _backend(url)
    assert backend is not None
    assert backend.accounts is not None
    return backend.accounts(url, audience)


@contextmanager
def _faults_named(url: str) -> Iterator[None]:
    """Raise an unexpected error in the block as `Misconfigured`, which names the backend of ``url``."""
    try:
        yield
    except (BackendError, ValueError, OSError):
        raise
    except ModuleNotFoundError as missing:
        raise Misconfigured(_without(_scheme(url), missing)) from missing
    except Exception as error:
        raise Misconfigured(f"the backend {_scheme(url)!r} cannot be made for this URL: {error!r}") from error


def _without(scheme: str, missing: ModuleNotFoundError) -> str:
    """Return the error message for a backend of ``scheme`` that lacks a library.

    It has the command that installs the library, if an extra of this distribution does.
    """
    said = f"the backend {scheme!r} needs the module {missing.name}, which is not installed"
    extra = _BUILT_IN.get(scheme, "").rpartition(".")[2]
    offered = metadata(_DISTRIBUTION).get_all("Provides-Extra") or []
    return f"{said}: pip install '{_DISTRIBUTION}[{extra}]'" if extra in offered else said


def _scheme(url: str) -> str:
    return url.partition(":")[0]


def _backend(url: str) -> Backend | None:
    scheme = _scheme(url)
    if scheme in _BUILT_IN:
        return _built_in(_BUILT_IN[scheme])
    points = list(entry_points(group=GROUP, name=scheme))
    if len({point.value for point in points}) > 1:
        rivals = " and ".join(sorted(f"{point.value} (of {point.dist.name})" for point in points if point.dist))
        raise Misconfigured(f"more than one distribution adds a backend {scheme!r}: {rivals}; uninstall all but one")
    return _loaded(points[0]) if points else None


def _loaded(point: EntryPoint) -> Backend:
    """Load and return the backend of an entry point. Any exception of its code is raised as `Misconfigured`."""
    try:
        backend = point.load()
    except Exception as error:
        what = str(error) if isinstance(error, ImportError) else repr(error)
        raise Misconfigured(f"cannot load the backend {point.name!r} ({point.value}): {what}") from error
    if not isinstance(backend, Backend):
        raise Misconfigured(f"the backend {point.name!r} ({point.value}) is not a milepost_backends.contract.Backend")
    return backend


def _built_in(package: str) -> Backend:
    backend = import_module(package).BACKEND
    assert isinstance(backend, Backend)
    return backend


def _all() -> Iterator[Backend]:
    """Yield every backend that can be loaded: those of this distribution, and those that other distributions add."""
    for package in dict.fromkeys(_BUILT_IN.values()):
        yield _built_in(package)
    for name in {point.name for point in entry_points(group=GROUP)} - _BUILT_IN.keys():
        with suppress(Misconfigured):  # a broken backend is reported only when an address uses it
            if (backend := _backend(f"{name}:")) is not None:
                yield backend


def _listed(examples: list[str]) -> str:
    return " or ".join([", ".join(examples[:-1]), examples[-1]])
