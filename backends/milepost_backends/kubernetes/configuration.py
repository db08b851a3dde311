"""Finds the API server and the credentials for it, with the Kubernetes client.

That client runs plugins and requests tokens without a time limit, so a separate thread calls it: a plugin that hangs
then costs only time. Threads that hang are left behind; they are daemons, so that the process can end.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

import yaml
from kubernetes import client, config

from milepost_backends.contract import Misconfigured
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.errors import NotSent
from milepost_backends.waiting import begin_in_thread

_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_FALLBACK_NAMESPACE: Final = "default"

_FAILURES: Final = (config.ConfigException, yaml.YAMLError, OSError, ValueError, KeyError, TypeError)
"""The exceptions that reading a configuration may raise."""

T = TypeVar("T")

_HUNG_SECONDS: Final = 30.0
_NAME: Final = "kubernetes-credentials"
_LEFT_BEHIND: Final = 32
"""The most threads of this process that may hang. Each may have started the process of a plugin."""


def configure(address: KubernetesAddress) -> tuple[Any, str]:
    """Return the client's configuration and the namespace. Call this in a thread: it reads files.

    Raises `Misconfigured`.
    """
    configuration = client.Configuration()
    explicit = address.kubeconfig is not None or address.context is not None
    try:
        if _SERVICE_HOST in os.environ and not explicit:
            config.load_incluster_config(client_configuration=configuration)
            configuration.proxy = None  # the environment's proxy is for outside hosts, seldom for the API server
            namespace = address.namespace or _POD_NAMESPACE.read_text().strip()
        else:
            of_context = _load(address, configuration)
            namespace = address.namespace or of_context
    except _FAILURES as error:
        raise Misconfigured(f"cannot configure the access to Kubernetes: {type(error).__name__}: {error}") from error
    return configuration, namespace


def _authorization(configuration: Any) -> dict[str, str]:
    """Return the header that authenticates a request. Call this for each request: it also refreshes tokens.

    Raises `NotSent`, which quotes no token, nor has a cause that does, since it is logged.
    """
    try:
        settings = configuration.auth_settings()
        header = {setting["key"]: setting["value"].strip() for setting in settings.values() if setting["value"]}
    except (config.ConfigException, OSError) as error:
        raise NotSent(f"no credentials: {type(error).__name__}: {error}") from None
    except Exception as error:  # noqa: BLE001 - foreign code refreshes the token, and may raise anything
        raise NotSent(f"no credentials: {type(error).__name__}") from None
    if not all(value.isascii() and value.isprintable() for value in header.values()):
        raise NotSent("no credentials: the token is not one line of printable ASCII")
    return header


def _load(address: KubernetesAddress, configuration: Any) -> str:
    """Load a kubeconfig, and return the namespace of its context."""
    file = None if address.kubeconfig is None else str(address.kubeconfig)
    config.load_kube_config(file, address.context, client_configuration=configuration, persist_config=False)
    contexts, active = config.list_kube_config_contexts(file)
    chosen = active
    if address.context is not None:
        chosen = next(context for context in contexts if context["name"] == address.context)
    return str(chosen["context"].get("namespace") or _FALLBACK_NAMESPACE)


class Credentials:
    """The authenticating header of each request. One thread gets it for all waiting requests.

    A thread that has taken ``hung_after`` seconds is abandoned, so that a plugin which works again is noticed.
    """

    def __init__(self, configuration: Any, *, hung_after: float = _HUNG_SECONDS) -> None:
        self._configuration = configuration
        self._hung_after = hung_after
        self._lock = Lock()
        self._asked: Future[dict[str, str]] | None = None
        self._since = 0.0

    def header(self, deadline: float) -> dict[str, str]:
        """Wait for the header until ``deadline`` (monotonic), in the caller's thread. Raises `NotSent`."""
        try:
            return self._asking().result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise NotSent("no credentials: the credential plugin has not answered") from None

    def _asking(self) -> Future[dict[str, str]]:
        with self._lock:
            now = time.monotonic()
            if self._asked is None or self._asked.done() or now - self._since >= self._hung_after:
                self._asked, self._since = begin(lambda: _authorization(self._configuration)), now
            return self._asked


def begin(call: Callable[[], T]) -> Future[T]:
    """Run ``call`` in a new thread, which is left behind if it hangs. Raises `NotSent` if too many already hang."""
    if sum(thread.name == _NAME for thread in threading.enumerate()) >= _LEFT_BEHIND:
        raise NotSent("no credentials: too many calls of the credential plugin hang")
    return begin_in_thread(call, _NAME)
