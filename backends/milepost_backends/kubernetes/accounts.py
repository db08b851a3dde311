"""Identifies the owner of a ServiceAccount token, by a TokenReview of the Kubernetes API.

This program needs the ClusterRole ``system:auth-delegator``. A token counts only if it was issued for Milepost's
audience. The token with which a Pod calls the API server has another audience. So Milepost cannot use a client's token
at the API server, and a Pod's token for the API server is not valid at Milepost.
"""

from __future__ import annotations

from typing import Final

import msgspec

from milepost_backends.contract import Account, Accounts, StorageUnavailable
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.client import KubernetesClient
from milepost_backends.kubernetes.errors import backend_error

_PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_PREFIX: Final = "system:serviceaccount:"
_SECONDS: Final = 5.0


class ServiceAccounts(Accounts):
    """The ServiceAccounts of the cluster at ``address``, identified by tokens that were issued for ``audience``."""

    def __init__(self, address: KubernetesAddress, audience: str, *, timeout: float = _SECONDS) -> None:
        self._client = KubernetesClient(address, "token reviews", timeout=timeout)
        self._audience = audience

    async def open(self) -> None:
        """Read the configuration of the access to Kubernetes, without connecting yet; see `Accounts.open`."""
        await self._client.open()

    async def close(self) -> None:
        """Close the connections to the Kubernetes API; see `Accounts.close`."""
        await self._client.close()

    async def owner(self, token: str) -> Account | None:
        """Return the ServiceAccount to which ``token`` was issued, by a TokenReview; see `Accounts.owner`.

        None if the token is not valid, was issued for another audience, or belongs to a user that is no ServiceAccount.
        """
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        answer = await self._client.request("POST", _PATH, body=msgspec.json.encode(review))
        if not answer.done:
            raise backend_error(answer, "ask whose a ServiceAccount token is (is system:auth-delegator granted?)")
        try:
            status = msgspec.json.decode(answer.body, type=_Review).status
        except msgspec.MsgspecError:  # `from None`, since the exception may quote the answer, which contains the token
            raise StorageUnavailable("the Kubernetes API has answered a TokenReview with what is none") from None
        if not status.authenticated or self._audience not in status.audiences:
            return None
        namespace, separator, name = status.user.username.removeprefix(_PREFIX).partition(":")
        return Account(namespace, name) if separator and status.user.username.startswith(_PREFIX) else None


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] = []


class _Review(msgspec.Struct):
    status: _Status
