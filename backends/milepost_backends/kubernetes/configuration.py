"""Find out where the API server is, and as whom to connect, by the means of the Kubernetes client."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config

from milepost_backends.contract import Misconfigured
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.errors import NotSent

_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_FALLBACK_NAMESPACE: Final = "default"

FAILURES: Final = (config.ConfigException, yaml.YAMLError, OSError, ValueError, KeyError, TypeError)
"""Reading a configuration may raise these."""


def configure(address: KubernetesAddress) -> tuple[Any, str]:
    """Return the client's configuration and the namespace. Call this in a thread: it reads files.

    Raises `Misconfigured`.
    """
    configuration = client.Configuration()
    explicit = address.kubeconfig is not None or address.context is not None
    try:
        if _SERVICE_HOST in os.environ and not explicit:
            config.load_incluster_config(client_configuration=configuration)
            configuration.proxy = None  # a proxy of the environment leads outside, and seldom back to the API server
            namespace = address.namespace or _POD_NAMESPACE.read_text().strip()
        else:
            of_context = _load(address, configuration)
            namespace = address.namespace or of_context
    except FAILURES as error:
        raise Misconfigured(f"cannot configure the access to Kubernetes: {type(error).__name__}: {error}") from error
    return configuration, namespace


def authorization(configuration: Any) -> dict[str, str]:
    """Return the header that authenticates a request. Ask for it with each request: this also refreshes tokens.

    Raises `NotSent`, which repeats no token, nor has a cause that does, since it is logged.
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
