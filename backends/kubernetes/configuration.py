"""Where the API server is and who we are there, as the Kubernetes client finds it out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config

from backends.contract import Misconfigured
from backends.kubernetes.address import KubernetesAddress
from backends.kubernetes.errors import NotSent

_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_FALLBACK_NAMESPACE: Final = "default"

FAILURES: Final = (config.ConfigException, yaml.YAMLError, OSError, ValueError, KeyError, TypeError)
"""What reading a configuration fails with."""


def configure(address: KubernetesAddress) -> tuple[Any, str]:
    """The client's configuration, and the namespace. Reads files, so in a thread. Raises `Misconfigured`."""
    configuration = client.Configuration()
    explicit = address.kubeconfig is not None or address.context is not None
    try:
        if _SERVICE_HOST in os.environ and not explicit:
            config.load_incluster_config(client_configuration=configuration)
            configuration.proxy = None  # one of the environment leads outside, to S3, and seldom back to the API server
            namespace = address.namespace or _POD_NAMESPACE.read_text().strip()
        else:
            of_context = _load(address, configuration)
            namespace = address.namespace or of_context
    except FAILURES as error:
        raise Misconfigured(f"cannot configure the access to Kubernetes: {type(error).__name__}: {error}") from error
    return configuration, namespace


def authorization(configuration: Any) -> dict[str, str]:
    """The header that says who we are; tokens are refreshed by this, so it is asked for each request anew.

    Raises `NotSent`, which repeats no token, nor has a cause that does: it is logged.
    """
    try:
        settings = configuration.auth_settings()
        header = {setting["key"]: setting["value"].strip() for setting in settings.values() if setting["value"]}
    except (config.ConfigException, OSError) as error:
        raise NotSent(f"no credentials: {type(error).__name__}: {error}") from None
    except Exception as error:  # noqa: BLE001 - what refreshes a token is foreign, and fails with what it likes
        raise NotSent(f"no credentials: {type(error).__name__}") from None
    if not all(value.isascii() and value.isprintable() for value in header.values()):
        raise NotSent("no credentials: the token is not one line of printable ASCII")
    return header


def _load(address: KubernetesAddress, configuration: Any) -> str:
    """Load a kubeconfig; the namespace of its context."""
    file = None if address.kubeconfig is None else str(address.kubeconfig)
    config.load_kube_config(file, address.context, client_configuration=configuration, persist_config=False)
    contexts, active = config.list_kube_config_contexts(file)
    chosen = active
    if address.context is not None:
        chosen = next(context for context in contexts if context["name"] == address.context)
    return str(chosen["context"].get("namespace") or _FALLBACK_NAMESPACE)
